def page(scene):
    pass
