"""``shardfix --lsp``, a language server: ``server`` talks with the editor, ``features`` says what it is told."""
