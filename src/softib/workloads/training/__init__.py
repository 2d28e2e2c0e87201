"""One step of training a transformer on GPUs with data, tensor, pipeline and expert parallelism: computing and
communication."""
