from collections.abc import Sequence


def ruled_areas(*a): ...
