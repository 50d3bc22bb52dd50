from .app import make_app as make_app
from .client import Client as Client
from .client import ClientError as ClientError
from .in_process import serve_in_thread as serve_in_thread
from .project import Project as Project
from .project import read_project as read_project
from .running_campaign import Campaign as Campaign
from .running_campaign import open_campaign as open_campaign
