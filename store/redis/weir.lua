-- What store/redis does, in one call: requests are judged and charged in the order they come in, each
-- as if it were alone. It is the arithmetic of package limit in microseconds, and must answer as that
-- does; see TestOracle. Plain Lua 5.1: numbers are doubles, exact up to 2^53, and so is their % as long
-- as none is negative.
--
-- KEYS: the counters, each once.
-- ARGV: the time in microseconds, or '' for the server's; the number of limits × 4 + the batch's kind;
-- then of each limit
--   (op × 8 + algorithm) × 2 + (1 if it enforces), max, window, but for a quota before start stop next
--   in place of the window; and for a token bucket the burst.
-- A batch is PLAIN if each request asks as many new counters as there are limits, in their order, each
-- for one; then may follow the number of requests that these limits are for, and the same again for
-- others. If it is CODED, and RARE where not all is taking from or looking at counters that are
-- strings, then follows of each hit
--   (its key's index × 65536 + its limit's) × 2 + (1 if it is its request's last), negative if the cost
--   is not 1; that cost; and for leases their name, or for a refund when it was charged.
--
-- Returned are for each hit: remaining × 2, + 1 if the reset is the limit's window; else the reset. Of
-- what does not pass the first is −1 − that, and the retry comes last. At the end stands the time.
--
-- A counter is a string: 6 bytes of when it was last charged, and one of the 5 bits above them with the
-- number of bytes of `used` in its first three; used; prev. A token bucket's level is used × window +
-- prev. A sliding log is 4 bytes of how many stamps are dead, then 7 bytes a stamp. Leases are a sorted
-- set by when they expire.
--
-- A lone caller's request is paid for line by line: a table or a function costs as much as a hit's
-- arithmetic, and a number written as text as much as a command. So what not every batch needs is not
-- made by the others. Hence the one long loop.

local TAKE, PEEK, RELEASE, REFUND, RESET = 0, 1, 2, 3, 4
local SLIDING, LOG, FIXED, BUCKET, HELD, QUOTA = 0, 1, 2, 3, 4, 5
local PLAIN, CODED, RARE = 0, 1, 2
local NEVER, FOREVER = -1, 9007199254740991
local SECOND, MINUTE, DAY = 1000000, 60000000, 86400000000
local KEEP = -1    -- for a time to live: the one that the key has
local SMALL = 4096 -- bytes of a log that is read and written whole

local KEYS, ARGV, call = KEYS, ARGV, redis.call
local byte, char, format = string.byte, string.char, string.format

local now, spare = ARGV[1], 60000 -- milliseconds that a state is kept longer than it must be
if now == '' then
  local t = call('TIME')
  now, spare = t[1] * SECOND + t[2], 2
else
  now = now + 0
end

-- What the bits above six bytes of a time mostly are; and their byte in a counter with one byte of `used`.
local epoch = now - now % 281474976710656
local small = 32 + epoch / 281474976710656

local head = ARGV[2] + 0 -- of the limits that are told next
local kind = head % 4    -- of the batch
local plain, many = kind == PLAIN, kind ~= PLAIN or #KEYS > 1

-- muldiv is a × b / c rounded down, and what is left: exact for b and c below 2^45.
local function muldiv(a, b, c)
  local p = a * b
  if p <= 9007199254740991 then
    local r = p % c
    return (p - r) / c, r
  end
  local shift, q, r = 1, 0, 0
  while a / shift >= 128 do shift = shift * 128 end
  while shift >= 1 do
    local rest = a % shift
    local digit = (a - rest) / shift
    a = rest
    local t = r * 128 + digit * b
    r = t % c
    q = q * 128 + (t - r) / c
    shift = shift / 128
  end
  return q, r
end

local drain, level -- for token buckets

-- What counters hold, by their index in KEYS. Of a plain batch raws alone is used, and of a lone
-- counter it is one string.
local raws                -- as they were read
local lasts, useds, prevs -- when they were last charged, used, prev
local lives               -- of what is to be written: the time after which it may be forgotten
local found               -- true where there is something in a key that is read apart
local mended              -- true where it has been seen to that there is an expiry

local mind, look, lookHeld, addStamps, grant, saveLog, logs
if kind == RARE then
  local floor, max, min = math.floor, math.max, math.min
  logs = {} -- sliding logs that were opened, by their index in KEYS
  local sets = {} -- and what leases hold

  -- seven writes a time in 7 bytes.
  local function seven(v)
    local s = ''
    for _ = 1, 7 do
      local digit = v % 256
      s, v = char(digit) .. s, (v - digit) / 256
    end
    return s
  end

  -- expiry is a time to live in milliseconds, for a command.
  local function expiry(life) return format('%.0f', math.ceil(min(life, FOREVER) / 1000) + spare) end

  -- number reads the bytes from i to j of s, the first the highest.
  local function number(s, i, j)
    local v = 0
    for k = i, j do v = v * 256 + byte(s, k) end
    return v
  end

  -- openLog is the sliding log k: of its stamps those up to `dead` no longer count.
  local function openLog(k)
    local g = logs[k]
    if g then return g end
    g = {dead = 0, size = 0, fresh = {}}
    local key = KEYS[k]
    local size = redis.pcall('STRLEN', key)
    if size ~= 0 then found[k] = true end
    if type(size) == 'number' and size % 7 == 4 then
      g.size = (size - 4) / 7
      if size <= SMALL then g.whole = call('GET', key) end
      g.dead = number(g.whole or call('GETRANGE', key, 0, 3), 1, 4)
      if g.dead > g.size then g.dead, g.size, g.whole = 0, 0, nil end
    end
    g.kept = g.size -- stamps that are in the string
    logs[k] = g
    return g
  end

  -- stamp is the i-th of the log's stamps, counted from 1.
  local function stamp(k, g, i)
    if i > g.kept then return g.fresh[i - g.kept] end
    if g.whole then return number(g.whole, 7 * i - 2, 7 * i + 4) end
    return number(call('GETRANGE', KEYS[k], 7 * i - 3, 7 * i + 3), 1, 7)
  end

  -- view is the time that the log sees, how many stamps no longer count then, and the last one.
  local function view(l, k, g)
    local last = g.size > g.dead and stamp(k, g, g.size) or 0
    if last - now > max(l.window, MINUTE) then return now, g.size, last end
    local at = max(now, last)
    local old, step = g.dead, 1
    while old + step <= g.size and at - stamp(k, g, old + step) >= l.window do
      old, step = old + step, step * 2
    end
    local above = min(g.size + 1, old + step) -- the first that may count
    while old + 1 < above do
      local mid = floor((old + above) / 2)
      if at - stamp(k, g, mid) >= l.window then old = mid else above = mid end
    end
    return at, old, last
  end

  function look(l, k, n, held)
    local g = openLog(k)
    local at, old, last = view(l, k, g)
    local used = g.size - old + held
    local free, late = max(0, l.max - used), at - now
    local reset = g.size > old and last + l.window - at or 0
    if reset > 0 then reset = reset + late end
    if n > 0 and n <= free then return true, free - n, l.window + late, 0 end
    local ask = max(n, 1)
    if n <= 0 and free > 0 then return true, free, reset, 0 end
    if ask > l.max - held then return false, free, reset, NEVER end
    return false, free, reset, stamp(k, g, old + used + ask - l.max) + l.window - at + late
  end

  function addStamps(l, k, n)
    local g = openLog(k)
    local at, old = view(l, k, g)
    g.dead, lives[k] = old, l.window + at - now
    for _ = 1, n do g.fresh[#g.fresh + 1] = at end
    g.size = g.size + n
  end

  function saveLog(k, g)
    local key, live, fresh = KEYS[k], g.size - g.dead, {}
    if live == 0 then
      call('DEL', key)
      return
    end
    for i = max(1, g.dead - g.kept + 1), #g.fresh do fresh[#fresh + 1] = seven(g.fresh[i]) end
    fresh = table.concat(fresh)
    if g.whole or g.dead >= live or g.dead >= g.kept then
      local old = ''
      if g.dead < g.kept then
        old = g.whole and string.sub(g.whole, 5 + 7 * g.dead) or call('GETRANGE', key, 4 + 7 * g.dead, -1)
      end
      old = '\0\0\0\0' .. old .. fresh
      if lives[k] == KEEP then
        call('SET', key, old, 'KEEPTTL')
      else
        call('SET', key, old, 'PX', expiry(lives[k]))
      end
    else
      call('SETRANGE', key, 0, string.sub(seven(g.dead), 4))
      call('APPEND', key, fresh)
      if lives[k] ~= KEEP then call('PEXPIRE', key, expiry(lives[k])) end
    end
  end

  -- openHeld is how much the leases of k hold that have not expired.
  local function openHeld(k)
    if not sets[k] then
      local size = redis.pcall('ZCARD', KEYS[k])
      if size ~= 0 then found[k] = true end
      if type(size) ~= 'number' then
        sets[k] = 0
      else
        sets[k] = size > 0 and size - call('ZCOUNT', KEYS[k], '-inf', now) or 0
      end
    end
    return sets[k]
  end

  function lookHeld(l, k, n, ask, more)
    local taken = openHeld(k) + more
    local free = max(0, l.max - taken)
    local reset = (taken > 0 or n > 0 and n <= free) and SECOND or 0
    if ask <= free then return true, free - n, reset, 0 end
    return false, free, reset, ask > l.max and NEVER or SECOND
  end

  local function member(lease, i) return i == 1 and lease or lease .. i end

  function grant(l, k, n, lease)
    local key, held = KEYS[k], openHeld(k)
    if held == 0 then
      call('DEL', key)
    else
      call('ZREMRANGEBYSCORE', key, '-inf', now)
    end
    for i = 1, n do call('ZADD', key, format('%.0f', now + l.window), member(lease, i)) end
    call('PEXPIRE', key, expiry(l.window))
    sets[k] = held + n
  end

  local function letGo(k, n, lease)
    for i = 1, n do redis.pcall('ZREM', KEYS[k], member(lease, i)) end
    sets[k] = nil
  end

  -- refund takes back n that were charged at `at`, and never more than is surely still there.
  local function refund(l, k, n, at)
    if l.algorithm == LOG then
      local g, kept = openLog(k), {}
      local whole = g.whole or (g.kept > 0 and call('GET', KEYS[k]) or '')
      for i = g.size, g.dead + 1, -1 do
        local t = i > g.kept and g.fresh[i - g.kept] or number(whole, 7 * i - 2, 7 * i + 4)
        if t == at and n > 0 then n = n - 1 else table.insert(kept, 1, t) end
      end
      g.dead, g.kept, g.size, g.fresh, g.whole = 0, 0, #kept, kept, nil
      lives[k] = lives[k] or KEEP
      return
    end
    local last = lasts[k]
    if last < at then return end
    if l.algorithm == BUCKET then
      -- What drained since may have drained from what is given back.
      local q, r = level(l, n, 0, last - at)
      q, r = useds[k] - q, prevs[k] - r
      if r < 0 then q, r = q - 1, r + l.window end
      if q < 0 then q, r = 0, 0 end
      useds[k], prevs[k] = q, r
    else
      local stop
      if l.algorithm == QUOTA then
        stop = at < l.start and l.start or at < l.stop and l.stop or l.next
      else
        stop = at - at % l.window + l.window
      end
      if last < stop then
        useds[k] = max(0, useds[k] - n)
      elseif l.algorithm == SLIDING and last < stop + l.window then
        prevs[k] = max(0, prevs[k] - n)
      end
    end
    lives[k] = lives[k] or KEEP
  end

  local function forget(k)
    call('DEL', KEYS[k])
    raws[k], lasts[k], lives[k], found[k], logs[k], sets[k] = nil, nil, nil, nil, nil, nil
  end

  -- mind does what is not to be answered with a status.
  function mind(l, k, n, extra)
    local op = l.op
    if op == RELEASE then letGo(k, n, extra) end
    if op == REFUND then refund(l, k, n, extra + 0) end
    if op == RESET then forget(k) end
  end
end

-- The hits of a batch that is not plain: limit, key, cost, and whether it is its request's last.
local hitLimits, hitKeys, hitCosts, extras, ends
local finals -- of each counter the last hit, after which it is written

-- The request that is looked at: its first hit, whether it passes, whether this is the second look, and
-- how much was answered before it. Of its hits there are five things each: the wait, or 0 if it is to
-- be charged; and what the charge leaves behind, which in a plain batch is written already.
local first, pass, truth, before, marks = 1, true, false, 0, nil
local NOTHING = false -- in place of a wait, of what is not to be charged
local out, told = {0, 0}, 0 -- what is answered
local i, m = 1, 1          -- the hit, and where its marks begin
local expiries             -- as text, by the time to live: there are few
-- The time is mostly the one before: six bytes, and what follows them where one byte of `used` does.
local stampOf, t1, t2, t3, t4, t5, t6, t7

-- write writes a counter. That of a plain batch is mostly written in place.
local function write(last, used, prev)
  local s, text, after = '', '', ''
  for _ = 1, 6 do
    local digit = last % 256
    s, last = char(digit) .. s, (last - digit) / 256
  end
  while used > 0 do
    local digit = used % 256
    text, used = char(digit) .. text, (used - digit) / 256
  end
  while prev > 0 do
    local digit = prev % 256
    after, prev = char(digit) .. after, (prev - digit) / 256
  end
  return s .. char(32 * #text + last) .. text .. after
end

-- The loop goes over the requests that ask the same limits, and then over those that ask others. A limit
-- that is the only one needs no table.
local limits, l, op, algorithm, enforce, most, window
local pos, asked, count = 3, #ARGV, 0
repeat
  local size = (head - kind) / 4
  local single = plain and size == 1
  if not single then limits, marks = {}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} end
  for x = 1, size do
    local what = ARGV[pos] + 0
    most, window, pos = ARGV[pos + 1] + 0, ARGV[pos + 2] + 0, pos + 3
    enforce = what % 2
    algorithm = (what - enforce) / 2 % 8
    op = (what - what % 16) / 16
    if not single or algorithm == BUCKET or algorithm == QUOTA then
      l = {op = op, algorithm = algorithm, enforce = enforce, max = most, window = window}
      if algorithm == BUCKET then
        l.burst = ARGV[pos] + 0
        pos = pos + 1
      elseif algorithm == QUOTA then
        l.before, window, l.window = window, 0, 0
        l.start, l.stop, l.next = ARGV[pos] + 0, ARGV[pos + 1] + 0, ARGV[pos + 2] + 0
        pos = pos + 3
      end
      if not single then limits[x] = l end
    end
    if algorithm == BUCKET and not level then
      -- drain is the time until a level is gone.
      function drain(l, q, r)
        if q == 0 and r == 0 then return 0 end
        if l.max == 0 then return FOREVER end
        local whole, rest = muldiv(q, l.window, l.max)
        local over = (rest + r) % l.max
        local time = whole + (rest + r - over) / l.max + (over > 0 and 1 or 0)
        return time < FOREVER and time or FOREVER
      end

      -- level is what is left of q hits and r parts of one after some time.
      function level(l, q, r, time)
        if q == 0 and r == 0 then return 0, 0 end
        local dq, dr = muldiv(time, l.max, l.window)
        q, r = q - dq, r - dr
        if r < 0 then q, r = q - 1, r + l.window end
        if q < 0 then return 0, 0 end
        return q, r
      end
    end
  end

  if not plain then
    lasts, useds, prevs, lives, found, mended = {}, {}, {}, {}, {}, {}
    hitLimits, hitKeys, hitCosts, extras, ends, finals = {}, {}, {}, {}, {}, {}
    while pos <= asked do
      local code, cost = ARGV[pos] + 0, 1
      pos, count = pos + 1, count + 1
      if code < 0 then
        code, cost = -code, ARGV[pos] + 0
        pos = pos + 1
      end
      local last = code % 2
      local index = (code - last) / 2 % 65536
      local k, l = ((code - last) / 2 - index) / 65536, limits[index]
      hitLimits[count], hitKeys[count], hitCosts[count], ends[count], finals[k] = l, k, cost, last == 1, count
      if kind == RARE and (l.algorithm == HELD or l.op == REFUND) then
        extras[count] = ARGV[pos]
        pos = pos + 1
      end
    end
  elseif pos <= asked then
    count, head = count + size * ARGV[pos], ARGV[pos + 1] + 0
    pos = pos + 2
  else
    count = #KEYS
  end

  if raws == nil then
    if kind == RARE then
      local keys, indexes, wanted = {}, {}, {}
      raws = {}
      for i = 1, count do
        local l, k = hitLimits[i], hitKeys[i]
        if l.algorithm ~= LOG and l.algorithm ~= HELD and l.op ~= RESET and not wanted[k] then
          wanted[k], keys[#keys + 1], indexes[#indexes + 1] = true, KEYS[k], k
        end
      end
      local values = #keys > 0 and call('MGET', unpack(keys)) or {}
      for i = 1, #keys do raws[indexes[i]] = values[i] end
    elseif #KEYS > 1 then
      raws = call('MGET', unpack(KEYS))
    else
      raws = redis.pcall('GET', KEYS[1])
      if type(raws) ~= 'string' then raws = false end -- it may be no string
      if not plain then raws = {raws} end
    end
  end

  -- The loop goes over the hits of a request, and if the request is refused once more: the truth is what
  -- holds without a charge.
  while i <= count do
    local k, n, ended, held = i, 1, single, 0
    if not plain then
      l, k, n, ended = hitLimits[i], hitKeys[i], hitCosts[i], ends[i]
    elseif not single then
      l, ended = limits[i - first + 1], i - first + 1 == size
    end
    if not single then op, algorithm, enforce, most, window = l.op, l.algorithm, l.enforce, l.max, l.window end

    -- Read the counter: all 0 if it was never used, or holds what is not ours.
    local s, last, used, prev = raws, 0, 0, 0
    if many then s = raws[k] end
    if not plain and lasts[k] then
      last, used, prev = lasts[k], useds[k], prevs[k]
    elseif s then
      local length, b, c, d, e, f, g, a, u, v = #s, byte(s, 1, 9)
      if a == small and length < 10 and u then
        last, used, prev = epoch + ((((b * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g, u, v or 0
      elseif length >= 7 then
        local high = a % 32
        local digits = (a - high) / 32
        if length >= 7 + digits and length <= 14 + digits then
          last = (((((high * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
          for x = 8, 7 + digits do used = used * 256 + byte(s, x) end
          for x = 8 + digits, length do prev = prev * 256 + byte(s, x) end
        end
      end
    end
    if not plain then
      lasts[k], useds[k], prevs[k] = last, used, prev
      if not truth then -- a hit of the same request may be on the same counter
        for h = first, i - 1 do
          local x = 5 * (h - first) + 1
          if hitKeys[h] == k and marks[x] == 0 then
            held, last, used, prev = held + hitCosts[h], marks[x + 1], marks[x + 2], marks[x + 3]
          end
        end
      end
    end

    -- Judge: whether n pass, what is left, until when the counter is used, and the wait; then, if n is
    -- charged, what the counter becomes, and how long it is to live.
    local ok, left, reset, retry, at, life, late, value = true, 0, 0, 0, now, KEEP, last - now
    if truth then n = 0 end
    local ask = n > 1 and n or 1
    if op > PEEK then
      mind(l, k, n, extras[i])
    elseif algorithm == LOG then
      ok, left, reset, retry = look(l, k, n, held)
    elseif algorithm == HELD then
      ok, left, reset, retry = lookHeld(l, k, n, ask, held)
    else
      -- A counter never goes back in time: its clock stands still, but for a step that is longer than
      -- the limit's patience.
      if late > 0 then
        at = last
        if late > (window < MINUTE and MINUTE or window) and (algorithm ~= QUOTA or late > DAY) then
          at, last, used, prev, late = now, 0, 0, 0, 0
        end
      end

      if algorithm == SLIDING then
        local elapsed, idle = at % window, at - last
        if idle > elapsed then
          used, prev = 0, idle < window and used or 0
        end
        local free = most - used
        if prev > 0 and free > 0 then
          local q, r = muldiv(prev, window - elapsed, window)
          free = free - q
          if r > 0 then free = free - 1 end
        end
        if free < 0 then free = 0 end
        left = free
        if ask <= free then
          if n > 0 then
            -- It is kept a quarter of a window longer than it is used, so that only the first charge of
            -- each quarter has to write the expiry.
            local step = window < 4 and 1 or (window - window % 4) / 4
            local since = at % step
            if idle > since then life = window + step - since end
            left, reset, used = free - n, window, used + n
          elseif used > 0 or prev > 0 then
            reset = window - idle
          end
        else
          ok = false
          if used > 0 or prev > 0 then reset = window - idle end
          if ask > most then
            retry = NEVER
          else -- the share of the previous window shrinks: in this window, or this one's in the next
            local wait, room, weighed = window - elapsed, most - used - ask, prev
            if room < 0 then wait, room, weighed = wait + window, most - ask, used end
            wait = wait - (weighed <= room and window or (muldiv(room, window, weighed)))
            retry = wait < window - idle and wait or window - idle
          end
        end
      elseif algorithm == BUCKET then
        local q, r = level(l, used, prev, at - last)
        local burst = most > 0 and l.burst or 0
        local free = burst - q - (r > 0 and 1 or 0)
        if free < 0 then free = 0 end
        if ask <= free then
          used, prev = q + n, r
          left, reset = free - n, drain(l, used, r)
          life = reset
        else
          ok, left, reset = false, free, drain(l, q, r)
          retry = ask > burst and NEVER or drain(l, q - (burst - ask), r)
        end
      else -- counted in a span
        local start, stop
        if algorithm == FIXED then
          start = at - at % window
          stop = start + window
        elseif at < l.start then
          start, stop = l.before, l.start
        elseif at < l.stop then
          start, stop = l.start, l.stop
        else
          start, stop = l.stop, l.next > at and l.next or at + 1
        end
        if last < start or algorithm == QUOTA then life = stop - at end
        if last < start then used = 0 end
        left = most > used and most - used or 0
        if used > 0 or n > 0 and n <= left then reset = stop - at end
        if ask <= left then
          left, used, prev = left - n, used + n, 0
        else
          ok, retry = false, ask > most and NEVER or stop - at
        end
      end
      if late > 0 then
        if reset > 0 then reset = reset + late end
        if retry > 0 then retry = retry + late end
        if life ~= KEEP then life = life + late end
      end
    end

    -- Answer.
    if truth then retry = marks[m] or 0 end
    local answer = left * 2
    if reset == window then answer = answer + 1 end
    if retry ~= 0 then answer = -1 - answer end
    told = told + 1
    out[told] = answer
    if reset ~= window then
      told = told + 1
      out[told] = reset
    end
    if retry ~= 0 then
      told = told + 1
      out[told] = retry
    end

    if not truth then
      if not single then marks[m] = retry end
      if not ok then
        if enforce == 1 then pass = false end
        if op == TAKE and (s or found and found[k]) and (plain or not mended[k] and not lives[k]) then
          if not plain then mended[k] = true end
          if call('PTTL', KEYS[k]) == -1 then -- it must not stay for good
            if algorithm == HELD then reset = window end
            call('PEXPIRE', KEYS[k], format('%.0f', math.ceil(math.min(reset, FOREVER) / 1000) + spare))
          end
        end
      elseif plain then
        if at ~= stampOf then
          local low = at % 16777216
          local mid = (at - low) / 16777216 % 16777216
          local y, z = mid % 65536, low % 65536
          local d, g = y % 256, z % 256
          t1, t2, t3, t4, t5, t6 = (mid - y) / 65536, (y - d) / 256, d, (low - z) / 65536, (z - g) / 256, g
          stampOf, t7 = at, 32 + (at - low - mid * 16777216) / 281474976710656
        end
        if op == PEEK then
          -- nothing to write
        elseif used > 255 or prev > 255 then
          value = write(at, used, prev)
        elseif prev > 0 then
          value = char(t1, t2, t3, t4, t5, t6, t7, used, prev)
        else
          value = char(t1, t2, t3, t4, t5, t6, t7, used)
        end
        if not single then marks[m + 1], marks[m + 2] = value, life end
      elseif n == 0 or op > PEEK then
        marks[m] = NOTHING
      elseif algorithm ~= LOG and algorithm ~= HELD then
        marks[m + 1], marks[m + 2], marks[m + 3], marks[m + 4] = at, used, prev, life
      else
        marks[m + 1], marks[m + 2], marks[m + 3] = last, used, prev
      end
    end

    if not ended then
      i, m = i + 1, m + 5
    elseif not pass and not truth and first < i then
      for x = before + 1, told do out[x] = nil end
      i, m, truth, told = first, 1, true, before
    else
      -- Charge what passed, and write what no other hit will change.
      for h = first, i do
        local charged, x = ok, 5 * (h - first) + 1
        if not single then charged = pass and marks[x] == 0 end
        if not plain then
          l, k = hitLimits[h], hitKeys[h]
          if charged and l.op == TAKE then
            if l.algorithm == LOG then
              addStamps(l, k, hitCosts[h])
            elseif l.algorithm == HELD then
              grant(l, k, hitCosts[h], extras[h])
            else
              lasts[k], useds[k], prevs[k] = marks[x + 1], marks[x + 2], marks[x + 3]
              if marks[x + 4] ~= KEEP or not lives[k] then lives[k] = marks[x + 4] end
            end
          end
          s, life, value = raws[k], lives[k], nil
          if not life or finals[k] ~= h then
            -- nothing to write yet
          elseif logs and logs[k] then
            saveLog(k, logs[k])
          elseif useds[k] == 0 and prevs[k] == 0 then
            call('DEL', KEYS[k])
          else
            value = write(lasts[k], useds[k], prevs[k])
          end
        elseif not single then
          k, s, value, life = h, raws[h], charged and marks[x + 1], marks[x + 2]
        end
        if value then
          if life ~= KEEP then
            local millis = expiries and expiries[life]
            if not millis then
              expiries = expiries or {}
              local whole = life < FOREVER and life + 999 or FOREVER
              millis = format('%.0f', (whole - whole % 1000) / 1000 + spare)
              expiries[life] = millis
            end
            call('SET', KEYS[k], value, 'PX', millis)
          elseif #value == #s then
            call('SETRANGE', KEYS[k], '0', value) -- 0 would be printed by way of its fraction
          else
            call('SET', KEYS[k], value, 'KEEPTTL')
          end
        end
      end
      i = i + 1
      first, m, pass, truth, before = i, 1, true, false, told
    end
  end
until not plain or count == #KEYS

out[told + 1] = now
return out
