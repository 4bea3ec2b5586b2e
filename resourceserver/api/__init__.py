"""What an endpoint is: its declaration, parameters and answers, and the session that it reads in."""
