"""An invented life, with which every part of the service has something to show (``svc demo``)."""
