from .audit import Audit as Audit
from .audit import audit_crowd as audit_crowd
from .finding_types import Finding as Finding
from .pruning import prune as prune
