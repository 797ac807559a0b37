#!lua
-- Creates or replaces a record.
-- KEYS[1] the bucket; ARGV the key, the value, the revision it must be at ('' for none at all), the
-- milliseconds it lasts ('' for ever) and those the engine keeps it after that.
-- Returns the new revision, or nothing.
local key, value, expected = ARGV[1], ARGV[2], ARGV[3]
local record, expiries = KEYS[1] .. ':r:' .. key, KEYS[1] .. ':x'
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

local old = redis.call('HMGET', record, 'n', 'x')
local live = old[1] and not (old[2] and tonumber(old[2]) <= now)
if expected == '' then
    if live then
        return false
    end
elseif not live or old[1] ~= expected then
    return false
end

-- A revision is a time, and later than any before: should a failover lose the newest writes, their
-- revisions are still not given again.
local newest = tonumber(redis.call('GET', KEYS[1] .. ':n') or '0')
local revision = string.format('%.0f', math.max(newest + 1, micros))
redis.call('SET', KEYS[1] .. ':n', revision)

redis.call('ZADD', KEYS[1] .. ':i', 0, key)
local kind = string.match(key, '^([^/]+)/')
if ARGV[4] == '' then
    redis.call('HSET', record, 'v', value, 'n', revision)
    redis.call('HDEL', record, 'x')
    redis.call('PERSIST', record)
    redis.call('ZREM', expiries, key)
    if kind then
        redis.call('ZREM', expiries .. ':' .. kind, key)
    end
else
    local expiry = now + tonumber(ARGV[4])
    redis.call('HSET', record, 'v', value, 'n', revision, 'x', string.format('%.0f', expiry))
    redis.call('PEXPIREAT', record, string.format('%.0f', expiry + tonumber(ARGV[5])))
    redis.call('ZADD', expiries, expiry, key)
    if kind then
        redis.call('ZADD', expiries .. ':' .. kind, expiry, key)
    end
end
return revision
