from .answer_audit import AnswerAudit as AnswerAudit
from .answer_audit import audit_answers as audit_answers
from .audit import Audit as Audit
from .audit import audit_crowd as audit_crowd
from .fair_assignment import assign_fairly as assign_fairly
from .finding_types import Finding as Finding
from .pruning import prune as prune
