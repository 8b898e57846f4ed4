-- How alike two words are, for "Did you mean".

CREATE OR REPLACE FUNCTION dbanon.likeness(a text, b text) RETURNS double precision
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    block integer := 0;
    at_a integer;
    at_b integer;
BEGIN
    IF a = '' AND b = '' THEN
        RETURN 1;
    END IF;
    -- The longest stretch they share, the first of equals; then the same left and right of it.
    FOR size IN REVERSE least(length(a), length(b)) .. 1 LOOP
        SELECT i, strpos(b, substr(a, i, size)) INTO at_a, at_b
        FROM generate_series(1, length(a) - size + 1) i WHERE strpos(b, substr(a, i, size)) > 0 ORDER BY i LIMIT 1;
        IF FOUND THEN
            block := size;
            EXIT;
        END IF;
    END LOOP;
    IF block = 0 THEN
        RETURN 0;
    END IF;
    RETURN (2.0 * block
            + (at_a + at_b - 2) * CASE WHEN at_a > 1 AND at_b > 1
                                       THEN dbanon.likeness(left(a, at_a - 1), left(b, at_b - 1)) ELSE 0 END
            + (length(a) + length(b) - at_a - at_b - 2 * block + 2)
              * CASE WHEN at_a + block <= length(a) AND at_b + block <= length(b)
                     THEN dbanon.likeness(substr(a, at_a + block), substr(b, at_b + block)) ELSE 0 END
           ) / (length(a) + length(b));
END
$$;
COMMENT ON FUNCTION dbanon.likeness(text, text) IS
'How alike two texts are, from 0 to 1: twice the characters in the stretches they share over all they have (Ratcliff and
Obershelp). Takes: a, b. Returns: the ratio. Raises: nothing. Example: SELECT dbanon.likeness(''tp-awar'', ''tp-aware'').';
