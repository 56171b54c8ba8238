"""JSON Schemas of the files that people write, made from the models that read them."""
