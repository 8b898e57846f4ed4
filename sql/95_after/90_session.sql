-- The session is as it was: all settings end with the transaction.

DROP FUNCTION pg_temp.wait_for_turn(), pg_temp.give_back(text), pg_temp.list_public_things(), pg_temp.revoke_rights(text),
    pg_temp.list_rights(text, text), pg_temp.list_other_databases(text[]), pg_temp.is_plain(text), pg_temp.list_roles(text), pg_temp.list_owners(),
    pg_temp.demand_closed(text), pg_temp.refuse_roles(), pg_temp.refuse_use(), pg_temp.is_whole();
