"""``svc doctor``: the checks of a deployment, from inside with its settings, and from outside over HTTP."""
