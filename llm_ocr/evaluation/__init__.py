"""How good a run is: by tests, by ground truth, against another run, or with nothing at all."""
