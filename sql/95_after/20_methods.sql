-- The registry of methods: names, parameters and words, as the program knows them.

@methods@
