#!lua flags=allow-oom
-- Deletes expired records that nobody has claimed.
-- KEYS[1] the bucket; ARGV what keys begin with, and how many to delete. Returns how many were deleted.
local prefix, limit = ARGV[1], tonumber(ARGV[2])
local expiries = KEYS[1] .. ':x'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- As in `claim.lua`: with a prefix of more than one segment some are looked at in vain.
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

local found, seen = {}, 0
local done = false
while not done and seen < MOST do
    local step = exact and math.min(limit, STEP) or STEP
    local keys = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', from + seen, step)
    for _, key in ipairs(keys) do
        if #found >= limit then
            done = true
            break
        end
        if string.sub(key, 1, #prefix) == prefix then
            table.insert(found, key)
        end
    end
    seen = seen + #keys
    done = done or #keys < step
end

for _, key in ipairs(found) do
    redis.call('UNLINK', KEYS[1] .. ':r:' .. key)
    redis.call('ZREM', KEYS[1] .. ':i', key)
    redis.call('ZREM', expiries, key)
    local kind = string.match(key, '^([^/]+)/')
    if kind then
        redis.call('ZREM', expiries .. ':' .. kind, key)
    end
end
return #found
