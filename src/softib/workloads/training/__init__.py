"""A step of training a transformer on GPUs: data, tensor, pipeline and expert parallel, compute and
communication."""
