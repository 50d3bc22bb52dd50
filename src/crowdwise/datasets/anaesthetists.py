"""The anaesthetists of Dawid and Skene 1979: 45 patients, 5 anaesthetists, 4 classes of fitness.

Table 1 of A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM
algorithm", Applied Statistics 28 (1979), 20–28. Every cell is as in two public transcriptions of the table,
NumPyro's example "Bayesian models of annotation" and D. Card's `dawid_skene`, which agree throughout.
"""

from __future__ import annotations

from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["anaesthetists"]

# Seven digits for each patient, 1 to 45: the class by anaesthetist 1 on three occasions, then by 2, 3, 4, 5.
TABLE = """
    1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223
    2322223 4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111
    2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222
    1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
    2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
ANSWERED_BY = (0, 0, 0, 1, 2, 3, 4)


def anaesthetists() -> CrowdLabels:
    """Return the labels of the table: 315 of them, for anaesthetist 1 answered three times on each patient.

    >>> anaesthetists()
    CrowdLabels: 315 labels by 5 workers on 45 tasks, 4 classes (1, 2, 3, 4)
    """
    patients = TABLE.split()
    return CrowdLabels.from_codes(
        [patient for patient in range(len(patients)) for _ in ANSWERED_BY],
        list(ANSWERED_BY) * len(patients),
        [int(digit) - 1 for answers in patients for digit in answers],
        tasks=range(1, len(patients) + 1),
        workers=range(1, 6),
        classes=range(1, 5),
        on_duplicate="all",
    )
