-- Runs with `search_path` set to the schema of its own, while replicas of the release before work on the same tables:
-- nothing here takes a lock that writers wait for, and the functions that they call keep their signatures.

-- How many jobs there are of each kind. Up to `in_most` of a kind are counted, by an index; more are estimated from the
-- planner's statistics. So the cost does not grow with the queue.
--
-- A function for the same reason as `claim`: with stale statistics a plan could read all jobs.
create function depth(
    in_space text, in_queue text, in_lease interval, in_most bigint,
    out waiting bigint, out leased bigint, out dead bigint, out estimated boolean
)
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    kept bigint;
    soon bigint;
    lasting bigint;
    plan json;
begin
    select count(*) into kept from (
        select from jobs where space = in_space and queue = in_queue and not last
        order by due_at limit in_most + 1
    ) as counted;
    -- A lease ends within its length from now. What else is due by then is delayed, and has no token.
    select count(*), count(token) into soon, leased from (
        select token from jobs
        where space = in_space and queue = in_queue and not last
            and due_at > now() and due_at <= now() + in_lease
        order by due_at limit in_most + 1
    ) as counted;
    select count(*) filter (where due_at <= now()), count(*) filter (where due_at > now()) into dead, lasting from (
        select due_at from jobs where space = in_space and queue = in_queue and last
        order by id limit in_most + 1
    ) as counted;
    estimated := kept > in_most or soon > in_most or dead + lasting > in_most;
    if kept > in_most then
        execute format(
            'explain (format json) select from jobs where space = %L and queue = %L and not last', in_space, in_queue
        ) into plan;
        kept := greatest(kept, (plan -> 0 -> 'Plan' ->> 'Plan Rows')::numeric::bigint);
    end if;
    if dead + lasting > in_most then
        execute format(
            'explain (format json) select from jobs where space = %L and queue = %L and last', in_space, in_queue
        ) into plan;
        dead := greatest(dead, (plan -> 0 -> 'Plan' ->> 'Plan Rows')::numeric::bigint - lasting);
    end if;
    waiting := greatest(kept - leased, 0);
    leased := leased + lasting;
end
$$;

-- The columns depend on each other: without this, the estimate of one queue would be that of an average space.
create statistics jobs_of_queue (mcv) on space, queue from jobs;

-- `claim_at` becomes the time to look at a record, not the time it expires: an update that lets it live longer leaves
-- `claim_at` as it is, so that no index changes, and the new row often goes to the old one's page. Whoever comes upon
-- such a record sets `claim_at` to the time when it does expire.

-- The places of expired records that nobody has claimed, locked.
create function expired(in_space text, in_limit bigint, in_first text, in_from text, in_to text)
returns tid[]
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    found tid[];
    alive tid[];
begin
    -- Records that live on are set anew, and make room for others: many at a time, for there may be many between two
    -- that have expired. The number of turns bounds the call.
    for turn in 1 .. 64 loop
        if in_first is null then
            select array_agg(place) filter (where gone), array_agg(place) filter (where not gone)
            into found, alive from (
                select ctid as place, coalesce(expires_at <= now(), false) as gone from records
                where space = in_space and claim_at <= now()
                order by claim_at limit greatest(in_limit, 1000)
                for update skip locked
            ) as due;
        else
            select array_agg(place) filter (where gone), array_agg(place) filter (where not gone)
            into found, alive from (
                select ctid as place, coalesce(expires_at <= now(), false) as gone from records
                where space = in_space and split_part(key, '/', 1) = in_first and claim_at <= now()
                    and key > in_from and key < in_to
                order by claim_at limit greatest(in_limit, 1000)
                for update skip locked
            ) as due;
        end if;
        if alive is not null then
            update records set claim_at = expires_at where ctid = any (alive);
        end if;
        exit when alive is null or cardinality(found) >= in_limit;
    end loop;
    return found[1:in_limit::integer];
end
$$;

create or replace function claim(
    in_space text, in_lease interval, in_limit bigint, in_first text, in_from text, in_to text
)
returns table (key text, value bytea, revision bigint)
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    found tid[] := expired(in_space, in_limit, in_first, in_from, in_to);
begin
    return query
    update records set claim_at = now() + in_lease where ctid = any (found)
    returning key, value, revision;
end
$$;

-- Deletes expired records that nobody has claimed, and says how many.
create function remove_expired(in_space text, in_limit bigint, in_first text, in_from text, in_to text)
returns bigint
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    found tid[] := expired(in_space, in_limit, in_first, in_from, in_to);
    removed bigint;
begin
    delete from records where ctid = any (found);
    get diagnostics removed = row_count;
    return removed;
end
$$;

-- Moves revisions on to the time, in microseconds. Every new connection does so: after a failover that has lost the
-- newest writes, their revisions are then not given again. Far fewer than a million are given in a second, so the time
-- is always ahead, and the lock keeps two connections from moving them back. It runs with the rights of its owner: moving
-- a sequence needs more than using it, and a server may have no more.
create function advance_revisions() returns void
language plpgsql
security definer
set search_path from current
as $$
declare
    wanted bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
begin
    if pg_is_in_recovery() then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('antiphon revisions ' || current_schema(), 0));
    if (select last_value from revisions) < wanted - 1000000 then
        perform setval('revisions', wanted);
    end if;
end
$$;

-- Room for a new version on each page, and a vacuum long before a fifth of a large table is dead.
alter table records set (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.02,
    toast.autovacuum_vacuum_threshold = 1000
);
alter table logs set (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05
);
alter table entries set (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05
);
