"""Archive of a project as INCEpTION exports it, its documents by dkpro-cassis 0.12.0: inception.zip beside this file.

    pip install dkpro-cassis && python make_inception.py

Three workers mark names in four short texts; bob overlooks one. Two texts are curated.
"""

import zipfile
from pathlib import Path

from cassis import Cas, TypeSystem

LAYER = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
WORD = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
TEXTS = {
    "a.txt": ("Ann met Bob.", [(0, 3, "PER"), (8, 11, "PER")]),
    "b.txt": ("😀 Rome is old.", [(2, 6, "LOC")]),
    "c.txt": ("Cy went to Oslo.", [(0, 2, "PER"), (11, 15, "LOC")]),
    "d.txt": ("Nobody came.", []),
}


def make_cas(name: str, worker: str) -> str:
    text, spans = TEXTS[name]
    types = TypeSystem()
    entity = types.create_type(name=LAYER, supertypeName="uima.tcas.Annotation")
    token = types.create_type(name=WORD, supertypeName="uima.tcas.Annotation")
    types.create_feature(entity, "value", "uima.cas.String")
    types.create_feature(entity, "identifier", "uima.cas.String")
    cas = Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = text, "text/plain"
    cas.add(token(begin=0, end=len(text.split()[0])))
    for begin, end, value in spans:
        if worker == "INITIAL_CAS" or (worker, name, begin) == ("bob", "a.txt", 8):
            continue
        other = {"PER": "ORG"}.get(value, value) if (worker, name) == ("cy", "c.txt") else value
        cas.add(entity(begin=begin, end=end, value=other))
    return cas.to_json(pretty_print=False)


if __name__ == "__main__":
    with zipfile.ZipFile(Path(__file__).parent / "inception.zip", "w", zipfile.ZIP_DEFLATED) as archive:

        def put(path: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(path), text)

        put("exportedproject1.json", '{"name": "names"}')
        for name, (text, _) in TEXTS.items():
            put(f"source/{name}", text)
            for worker in ("INITIAL_CAS", "ann", "bob", "cy"):
                put(f"annotation/{name}/{worker}.json", make_cas(name, worker))
            if name in ("a.txt", "b.txt"):
                put(f"curation/{name}/CURATION_USER.json", make_cas(name, "CURATION_USER"))
