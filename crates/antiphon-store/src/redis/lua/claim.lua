#!lua
-- Takes expired records.
-- KEYS[1] the bucket; ARGV what keys begin with, for how many milliseconds to take them, how many, after
-- how many bytes to stop, and for how long the engine then keeps them.
-- Returns keys, values and revisions.
local prefix, lease, limit, room = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local expiries = KEYS[1] .. ':x'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Expired records are also kept by the first segment of their keys, which most prefixes are. With a longer
-- prefix some are looked at in vain: a few thousand at a time, from anywhere, so that all have their turn.
local STEP, MOST = 256, 4096
local first = string.match(prefix, '^([^/]+)/')
local exact = prefix == '' or #prefix == #first + 1
local index = first and expiries .. ':' .. first or expiries
local from = 0
if not exact then
    local expired = redis.call('ZCOUNT', index, '-inf', now)
    if expired > MOST then
        from = tonumber(time[2]) % expired
    end
end

local taken, gone, seen = {}, {}, 0
local done = false
while not done and seen < MOST do
    local step = exact and math.min(limit, STEP) or STEP
    local keys = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', from + seen, step)
    for _, key in ipairs(keys) do
        if #taken >= 3 * limit or room <= 0 then
            done = true
            break
        end
        if string.sub(key, 1, #prefix) == prefix then
            local record = redis.call('HMGET', KEYS[1] .. ':r:' .. key, 'v', 'n')
            if record[1] then
                table.insert(taken, key)
                table.insert(taken, record[1])
                table.insert(taken, record[2])
                room = room - #record[1]
            else
                table.insert(gone, key)
            end
        end
    end
    seen = seen + #keys
    done = done or #keys < step
end

local function by_kind(key)
    local kind = string.match(key, '^([^/]+)/')
    return kind and expiries .. ':' .. kind
end
for at = 1, #taken, 3 do
    local key = taken[at]
    redis.call('ZADD', expiries, now + lease, key)
    if by_kind(key) then
        redis.call('ZADD', by_kind(key), now + lease, key)
    end
    redis.call('PEXPIREAT', KEYS[1] .. ':r:' .. key, string.format('%.0f', now + lease + tonumber(ARGV[5])))
end
for _, key in ipairs(gone) do
    redis.call('ZREM', KEYS[1] .. ':i', key)
    redis.call('ZREM', expiries, key)
    if by_kind(key) then
        redis.call('ZREM', by_kind(key), key)
    end
end
return taken
