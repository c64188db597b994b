if __name__ != "ganger.replay":
    raise ImportError("import ganger.replay, not replay")
