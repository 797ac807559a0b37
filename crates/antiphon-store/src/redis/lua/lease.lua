-- ARGV how many jobs at most, how long a lease lasts, and how often a job is tried.
-- Returns in how many milliseconds to ask again (-1 if nothing is known to come), then of each job its id,
-- payload, attempt and token.
local limit, lasting, tries = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
bury_lapsed(64)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, limit)) do
    if redis.call('HEXISTS', body, id) == 1 then
        put(id, body_of(id))
    end
    redis.call('ZREM', due, id)
    redis.call('HDEL', body, id)
end

local reply, jobs = { -1 }, 0
local function give(entry, fields, times)
    local id, attempt = fields[2], tonumber(fields[4]) + times
    if attempt >= tries then
        redis.call('ZADD', last, now + lasting, id)
        redis.call('ZREM', held, id)
    else
        redis.call('ZADD', held, now + lasting, id)
    end
    table.insert(reply, id)
    table.insert(reply, fields[6])
    table.insert(reply, attempt)
    table.insert(reply, entry .. '/' .. times)
    jobs = jobs + 1
end

-- Leases that have run out are found by their time. XAUTOCLAIM would walk all that are held.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, limit)) do
    local entry = redis.call('HGET', ids, id)
    if entry and not is_lost(id, entry) then
        local claimed = redis.call('XCLAIM', stream, GROUP, WORKER, 0, entry)[1]
        give(entry, claimed[2], given(entry))
    else
        redis.call('ZREM', held, id)
    end
end
local more = jobs == limit
if not more and redis.call('EXISTS', stream) == 1 then
    local streams = redis.call('XREADGROUP', 'GROUP', GROUP, WORKER, 'COUNT', limit - jobs, 'STREAMS', stream, '>')
    local entries = streams and streams[1][2] or {}
    for _, entry in ipairs(entries) do
        give(entry[1], entry[2], 1)
    end
    more = jobs == limit and #redis.call('XRANGE', stream, '(' .. entries[#entries][1], '+', 'COUNT', 1) > 0
end

local function soonest(times)
    local first = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')
    if first[2] then
        local wait = math.max(0, tonumber(first[2]) - now)
        if reply[1] < 0 or wait < reply[1] then
            reply[1] = wait
        end
    end
end
soonest(due)
soonest(held)
if more or reply[1] == 0 then
    wake_one()
else
    redis.call('DEL', wake)
end
return reply
