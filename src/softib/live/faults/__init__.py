"""What softib fault does to a running fabric."""
