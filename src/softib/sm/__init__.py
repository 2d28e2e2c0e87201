"""The subnet manager (SM) and the subnet administrator (SA). They learn the subnet only from
MADs."""
