"""Cost estimates: how many pages an input has, and what reading them costs on each platform."""
