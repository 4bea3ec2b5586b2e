"""What follows from where a person was: visits, the time zone of each point, the local time of sleeps."""
