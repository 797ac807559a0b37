-- Runs with `search_path` set to the schema of its own.

-- Revisions of records and tokens of leases: one source, so that no number is given twice.
create sequence revisions;

create table records (
    space text collate "C" not null,
    key text collate "C" not null,
    value bytea not null,
    revision bigint not null default nextval('revisions'),
    -- Null if it never expires.
    expires_at timestamptz,
    -- From when on it may be claimed: first `expires_at`, then the end of the last claim.
    claim_at timestamptz,
    primary key (space, key)
)
-- Writing a record again then often finds room on its page, and touches no index.
with (fillfactor = 85);

-- Claims of everything, and claims under a prefix, which all begin with a whole first segment.
create index records_claim on records (space, claim_at) where claim_at is not null;
create index records_claim_first on records (space, split_part(key, '/', 1), claim_at)
    where claim_at is not null;

-- Takes expired records: all that begin with `in_first` and lie between the bounds, or just all if it is null.
--
-- A function, so that it is planned the same way whatever the statistics say: the rows are found by an index,
-- locked, and then written where they are. Statistics of queues and expired records are nearly always stale, and
-- a join with the table would now and then read all of it.
create function claim(
    in_space text, in_lease interval, in_limit bigint, in_first text, in_from text, in_to text
)
returns table (key text, value bytea, revision bigint)
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if in_first is null then
        return query
        update records set claim_at = now() + in_lease
        where ctid = any (array(
            select ctid from records
            where space = in_space and claim_at <= now()
            order by claim_at limit in_limit
            for update skip locked
        ))
        returning key, value, revision;
    else
        return query
        update records set claim_at = now() + in_lease
        where ctid = any (array(
            select ctid from records
            where space = in_space and split_part(key, '/', 1) = in_first and claim_at <= now()
                and key > in_from and key < in_to
            order by claim_at limit in_limit
            for update skip locked
        ))
        returning key, value, revision;
    end if;
end
$$;

-- A log is here if it has at least one entry.
create table logs (
    space text collate "C" not null,
    log text collate "C" not null,
    id bigint not null generated always as identity,
    length bigint not null,
    primary key (space, log)
)
with (fillfactor = 70);

create table entries (
    log_id bigint not null,
    number bigint not null,
    entry bytea not null,
    primary key (log_id, number)
);

-- A function, for each of its statements sees what was committed before it, the lock on the log included.
create function append(
    in_space text, in_log text, in_at bigint, in_entries bytea[],
    out done boolean, out size bigint
)
language plpgsql
set search_path from current
as $$
declare
    added bigint := cardinality(in_entries);
    id_of_log bigint;
begin
    loop
        if added > 0 and in_at = 0 then
            insert into logs (space, log, length) values (in_space, in_log, added)
            on conflict do nothing
            returning id into id_of_log;
        elsif added > 0 then
            update logs set length = length + added
            where space = in_space and log = in_log and length = in_at
            returning id into id_of_log;
        end if;

        if id_of_log is not null then
            insert into entries (log_id, number, entry)
            select id_of_log, in_at + place - 1, entry
            from unnest(in_entries) with ordinality as given (entry, place);
            done := true;
            size := in_at + added;
            return;
        end if;

        size := coalesce((select length from logs where space = in_space and log = in_log), 0);
        -- Once more if the log came to the right length between the two statements.
        if size <> in_at or added = 0 then
            done := size = in_at;
            return;
        end if;
    end loop;
end
$$;

create function delete_log(in_space text, in_log text) returns void
language plpgsql
set search_path from current
as $$
declare
    id_of_log bigint;
begin
    -- Waits for who is appending; the second statement then sees what was appended.
    delete from logs where space = in_space and log = in_log returning id into id_of_log;
    delete from entries where log_id = id_of_log;
end
$$;

create table jobs (
    space text collate "C" not null,
    queue text collate "C" not null,
    id text collate "C" not null,
    payload bytea not null,
    attempts integer not null default 0,
    -- From when on it may be leased: the end of its delay, or of its lease.
    due_at timestamptz not null,
    -- Which lease is the valid one; null if it was never leased, given back or buried.
    token bigint,
    -- Whether it will not be leased again: it is dead as soon as it is due.
    last boolean not null default false,
    primary key (space, queue, id)
)
-- Rows live for seconds: they are swept long before a fifth of the table is dead.
with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1
);

create index jobs_due on jobs (space, queue, due_at) where not last;
create index jobs_last on jobs (space, queue, id) where last;

-- Leases what is due, oldest first. A function for the same reason as `claim`.
create function lease(
    in_space text, in_queue text, in_limit bigint, in_lease interval, in_max_attempts integer
)
returns table (id text, payload bytea, attempts integer, token bigint)
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    update jobs
    set due_at = now() + in_lease, attempts = attempts + 1, last = attempts + 1 >= in_max_attempts,
        token = nextval('revisions')
    where ctid = any (array(
        select ctid from jobs
        where space = in_space and queue = in_queue and not last and due_at <= now()
        order by due_at limit in_limit
        for update skip locked
    ))
    returning id, payload, attempts, token;
end
$$;
