"""Stories of failed jobs: recorded on running fabrics, and how often ``softib why`` names the cause."""
