"""The worker: a process beside the resource servers that does their work in the background, turn by turn."""
