-- What all scripts of a queue begin with. KEYS[1] is the queue.
--
-- :s     a stream with the jobs that wait for a worker or have one: the id, the attempts before, the payload;
--        its group's pending list says how often each was given since it was put there
-- :ids   by a job's id, where it is: its entry in the stream, or `due`, or `dead`
-- :due   delayed jobs, by their time        :held  leased jobs, by the end of the lease
-- :last  those that are leased for the last time        :dead  dead jobs
-- :body  attempts and payload of delayed and dead jobs
-- :wake  a token while there may be something for a waiting worker
local queue = KEYS[1]
local stream, ids, due, held = queue .. ':s', queue .. ':ids', queue .. ':due', queue .. ':held'
local last, dead, body, wake = queue .. ':last', queue .. ':dead', queue .. ':body', queue .. ':wake'
local GROUP, WORKER = 'antiphon', 'worker'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function wake_one()
    if redis.call('EXISTS', wake) == 0 then
        redis.call('LPUSH', wake, '1')
    end
end

local function put(id, attempts, payload)
    if redis.call('EXISTS', stream) == 0 then
        redis.call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
    end
    redis.call('HSET', ids, id, redis.call('XADD', stream, '*', 'i', id, 'a', attempts, 'p', payload))
end

local function put_later(id, attempts, payload, delay)
    redis.call('HSET', body, id, struct.pack('>I4', attempts) .. payload)
    redis.call('HSET', ids, id, 'due')
    redis.call('ZADD', due, now + delay, id)
    -- Whoever waits does so until the time of the first.
    if redis.call('ZRANGE', due, 0, 0)[1] == id then
        wake_one()
    end
end

local function body_of(id)
    local packed = redis.call('HGET', body, id)
    return struct.unpack('>I4', packed), string.sub(packed, 5)
end

-- Whether a job is not where its id says: somebody else removed it, with XDEL for example. What is left of it is then
-- removed, so that it can be added again.
local function is_lost(id, place)
    local there
    if place == 'due' then
        there = redis.call('ZSCORE', due, id) and redis.call('HEXISTS', body, id) == 1
    elseif place == 'dead' then
        there = redis.call('ZSCORE', dead, id)
    else
        there = #redis.call('XRANGE', stream, place, place) > 0
    end
    if there then
        return false
    end
    if place ~= 'due' and place ~= 'dead' and redis.call('EXISTS', stream) == 1 then
        redis.call('XACK', stream, GROUP, place)
    end
    redis.call('HDEL', ids, id)
    redis.call('HDEL', body, id)
    for _, times in ipairs({ due, held, last, dead }) do
        redis.call('ZREM', times, id)
    end
    return true
end

-- How often an entry was given.
local function given(entry)
    local pending = redis.call('XPENDING', stream, GROUP, entry, entry, 1)[1]
    return pending and pending[4]
end

-- The entry of a job, if the token is that of its present lease.
local function leased(id, token)
    local entry, times = string.match(token, '^(.+)/(%d+)$')
    if entry and redis.call('HGET', ids, id) == entry and given(entry) == tonumber(times) then
        return entry
    end
end

-- Takes a job off the stream, and tells its attempts and its payload.
local function take_off(id, entry)
    local fields = redis.call('XRANGE', stream, entry, entry)[1][2]
    local attempts = tonumber(fields[4]) + given(entry)
    redis.call('XACK', stream, GROUP, entry)
    redis.call('XDEL', stream, entry)
    redis.call('ZREM', held, id)
    redis.call('ZREM', last, id)
    return attempts, fields[6]
end

local function bury(id, attempts, payload)
    redis.call('HSET', body, id, struct.pack('>I4', attempts) .. payload)
    redis.call('HSET', ids, id, 'dead')
    redis.call('ZADD', dead, 0, id)
end

-- Buries jobs whose last lease has run out.
local function bury_lapsed(limit)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', last, '-inf', now, 'LIMIT', 0, limit)) do
        local entry = redis.call('HGET', ids, id)
        if entry and not is_lost(id, entry) then
            bury(id, take_off(id, entry))
        else
            redis.call('ZREM', last, id)
        end
    end
end
