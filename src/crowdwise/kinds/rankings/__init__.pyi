from .answers import Rankings as Rankings
from .answers import read_rankings as read_rankings
from .borda import Borda as Borda
from .kemeny import Kemeny as Kemeny
from .plackett_luce import PlackettLuce as PlackettLuce
from .simulation import simulate_rankings as simulate_rankings
