if __name__ != "ganger.schemas":
    raise ImportError("import ganger.schemas, not schemas")
