"""The frame of endpoints: their declaration, parameters and answers, and the session in which they read."""
