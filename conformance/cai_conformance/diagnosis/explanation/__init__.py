"""What a diagnosis says in words."""
