"""The local runner, ``svc up``: it prepares everything in one process image and watches in a smaller one."""
