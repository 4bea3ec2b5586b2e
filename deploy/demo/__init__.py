"""An invented life, with data for every endpoint and page (``svc demo``)."""
