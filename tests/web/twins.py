"""A fabric in which names do not tell nodes apart."""

TWINS = """Switch 8 "S-0002c90000000001" # "leaf-1"
[1] "S-0002c90000000003"[1] # 4xNDR
[3] "H-0002c90000000011"[1] # 4xNDR

Switch 8 "S-0002c90000000002" # "LEAF 1"
[1] "S-0002c90000000003"[2] # 4xNDR
[3] "H-0002c90000000012"[1] # 4xNDR

Switch 8 "S-0002c90000000003" # "spine"
[1] "S-0002c90000000001"[1] # 4xNDR
[2] "S-0002c90000000002"[1] # 4xNDR

Ca 1 "H-0002c90000000011" # "node"
[1] "S-0002c90000000001"[3] # 4xNDR

Ca 1 "H-0002c90000000012" # "node"
[1] "S-0002c90000000002"[3] # 4xNDR
"""
"""Two hosts of one name, and two leaves whose names differ only in case and a separator."""
