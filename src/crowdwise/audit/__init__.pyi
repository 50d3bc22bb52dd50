from .audit import Audit as Audit
from .audit import audit_crowd as audit_crowd
from .findings import Finding as Finding
from .pruning import prune as prune
