if __name__ != "ganger.streams":
    raise ImportError("import ganger.streams, not streams")
