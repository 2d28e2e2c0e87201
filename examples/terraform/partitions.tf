# Partitions of a softib service, with Terraform's built-in resource terraform_data and curl: no provider is downloaded.
# The token is read from the environment (SOFTIB_TOKEN), so it is not in the state.

terraform {
  required_version = ">= 1.4"
}

variable "url" {
  description = "Address of softib serve, for example https://HOST:8471."
  type        = string
}

variable "ca" {
  description = "PEM file of the CA of the server's certificate; empty: curl's."
  type        = string
  default     = ""
}

variable "partitions" {
  description = "P_Key => members as PortGUIDs."
  type = map(object({
    full    = optional(list(string), [])
    limited = optional(list(string), [])
  }))
}

locals {
  curl = "curl --fail-with-body --silent --show-error ${var.ca == "" ? "" : "--cacert '${var.ca}'"} --header \"Authorization: Basic $SOFTIB_TOKEN\""
}

# Deletes the partition when it leaves the configuration.
resource "terraform_data" "partition" {
  for_each = var.partitions
  input    = { pkey = each.key, url = var.url, curl = local.curl }

  provisioner "local-exec" {
    when    = destroy
    command = "${self.input.curl} --request DELETE '${self.input.url}/ufmRestV3/resources/pkeys/${self.input.pkey}'"
  }
}

# Sets the members, also when they change: the partition stays in use meanwhile.
resource "terraform_data" "members" {
  for_each = var.partitions
  triggers_replace = jsonencode({
    pkey        = each.key
    guids       = concat(each.value.full, each.value.limited)
    memberships = concat([for g in each.value.full : "full"], [for g in each.value.limited : "limited"])
    ip_over_ib  = true
    index0      = false
  })
  depends_on = [terraform_data.partition]

  provisioner "local-exec" {
    command     = "${local.curl} --request PUT --json \"$BODY\" '${var.url}/ufmRestV3/resources/pkeys'"
    environment = { BODY = self.triggers_replace }
  }
}
