if __name__ != "ganger.services":
    raise ImportError("import ganger.services, not services")
