"""What a run tells: terminal, JSON lines, JUnit, Markdown, and known failures."""
