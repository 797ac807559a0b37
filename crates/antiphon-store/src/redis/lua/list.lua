#!lua flags=allow-oom
-- KEYS[1] the bucket; ARGV the ends of the range of keys, how many of them to look at, and after how many
-- bytes to stop. Returns the last key looked at ('' if there is none behind it), then keys, values and
-- revisions.
local index = KEYS[1] .. ':i'
local limit, room = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local keys = redis.call('ZRANGEBYLEX', index, ARGV[1], ARGV[2], 'LIMIT', 0, limit)
local found = { '' }
for at, key in ipairs(keys) do
    local record = redis.call('HMGET', KEYS[1] .. ':r:' .. key, 'v', 'n', 'x')
    if not record[1] then
        -- The engine dropped it, long after it had expired.
        redis.call('ZREM', index, key)
    elseif not (record[3] and tonumber(record[3]) <= now) then
        table.insert(found, key)
        table.insert(found, record[1])
        table.insert(found, record[2])
        room = room - #record[1]
    end
    if room <= 0 or at == limit then
        found[1] = key
        break
    end
end
return found
