"""``svc`` with smaller bounds on heads and connections, so that tests reach them soon."""

from deploy import cli
from shared.heads import BoundedHeads

HEAD_S = 2.0
MAX_CONNECTIONS = 400

if __name__ == "__main__":
    BoundedHeads.head_s = HEAD_S
    BoundedHeads.max_connections = MAX_CONNECTIONS
    cli.main()
