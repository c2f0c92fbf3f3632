"""What a launcher may do on a real cluster, what it looks at before it creates anything, and the image it runs in."""
