-- The session is as it was: all settings end with the transaction.

DROP FUNCTION pg_temp.wait_for_turn(), pg_temp.give_back(text), pg_temp.public_things(), pg_temp.revoke_rights(text),
    pg_temp.rights(text, text), pg_temp.databases_of(text[]), pg_temp.is_plain(text), pg_temp.roles(text), pg_temp.owners(),
    pg_temp.demand_closed(text), pg_temp.refuse_use(), pg_temp.is_whole();
