#!lua flags=no-writes
-- KEYS[1] the bucket; ARGV[1] the key. Returns the value and the revision, or nothing.
local record = redis.call('HMGET', KEYS[1] .. ':r:' .. ARGV[1], 'v', 'n', 'x')
if not record[1] then
    return false
end
if record[3] then
    local time = redis.call('TIME')
    if tonumber(record[3]) <= time[1] * 1000 + math.floor(time[2] / 1000) then
        return false
    end
end
return { record[1], record[2] }
