"""``svc doctor``: the checks of a deployment."""
