// Trunkline for C#: P/Invoke bindings of the C library (trunkline.h), in one file. Add it to a project; at
// run time, the program needs libtrunkline.so.0.
//
// Calls throw a TrunklineException with the status and the message of the library. Objects close their
// handle with Dispose. All calls may be made from all threads; one thread at a time uses a Readings or the
// end of a stream. Lists of names have one name per line.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Trunkline
{
    /// <summary>Why a call did not do its work.</summary>
    public sealed class TrunklineException : Exception
    {
        /// <summary>The status: TL_FAULT_... if positive, TL_ERROR_... if negative.</summary>
        public int Status { get; }

        /// <summary>The name of the status, such as <c>unknown-name</c>.</summary>
        public string Name { get; }

        internal TrunklineException(int status, string name, string message) : base(message)
        {
            Status = status;
            Name = name;
        }
    }

    /// <summary>One reading: a sample as a reader receives it; the members are those of tl_reading.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Reading
    {
        public double Value;
        public long Integer;
        public long SourceTimestampNs;
        public long EngineTimestampNs;
        public ulong Epoch;
        public ulong Sequence;
        /// <summary>Updates lost before this one; -1 if unknown.</summary>
        public long Lost;
        public ulong Coalesced;
        public long StaleNs;
        public int Status;
        public int DataType;
        public uint Item;
        public uint Quality;
        private byte hasValue;
        private byte own;
        private byte reserved0;
        private byte reserved1;
        private byte reserved2;
        private byte reserved3;
        private byte reserved4;
        private byte reserved5;

        public bool HasValue { get { return hasValue != 0; } }
        public bool Own { get { return own != 0; } }
        public bool IsGood { get { return (Quality & 3) == 0; } }
        public DateTime SourceTime { get { return new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc).AddTicks(SourceTimestampNs / 100); } }
    }

    /// <summary>What a subscription reports besides readings; the members are those of tl_event.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Event
    {
        public ulong Epoch;
        public long Lost;
        public EventKind Kind;
        public int Status;
        public uint Item;
        private uint reserved;
    }

    public enum EventKind
    {
        None = 0,
        Connected = 1,
        Disconnected = 2,
        ItemError = 3,
        Ended = 4
    }

    internal static class Native
    {
        private const string Library = "trunkline";

        internal const int ShortBuffer = -4;
        internal const int Timeout = -5;
        internal const int StreamEnded = -17;

        [DllImport(Library)] internal static extern int tl_last_error_message(byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_status_name(int status, byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_connect(byte[] url, UIntPtr urlLength, int timeoutMs, out ulong client);
        [DllImport(Library)] internal static extern int tl_client_close(ulong client);
        [DllImport(Library)] internal static extern int tl_client_state(ulong client, out int state);
        [DllImport(Library)] internal static extern int tl_open(ulong client, byte[] names, UIntPtr namesLength, int timeoutMs, [Out] ulong[] variables, [Out] int[] statuses, UIntPtr capacity, out UIntPtr count);
        [DllImport(Library)] internal static extern int tl_read(ulong client, ulong[] variables, UIntPtr count, int timeoutMs, ulong readings);
        [DllImport(Library)] internal static extern int tl_read_f64(ulong client, ulong[] variables, UIntPtr count, int timeoutMs, [Out] double[] values, [Out] int[] statuses);
        [DllImport(Library)] internal static extern int tl_read_text(ulong client, ulong variable, int timeoutMs, byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_write_f64(ulong client, ulong[] variables, double[] values, UIntPtr count, int timeoutMs, [Out] int[] statuses);
        [DllImport(Library)] internal static extern int tl_write_text(ulong client, ulong variable, byte[] value, UIntPtr valueLength, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_writes_create(ulong client, out ulong writes);
        [DllImport(Library)] internal static extern int tl_writes_close(ulong writes);
        [DllImport(Library)] internal static extern int tl_writes_add_f64(ulong writes, ulong variable, double value);
        [DllImport(Library)] internal static extern int tl_writes_add_text(ulong writes, ulong variable, byte[] value, UIntPtr valueLength);
        [DllImport(Library)] internal static extern int tl_write_batch(ulong writes, int timeoutMs, [Out] int[] statuses, UIntPtr capacity);
        [DllImport(Library)] internal static extern int tl_write_group(ulong writes, int timeoutMs, out ulong commit);
        [DllImport(Library)] internal static extern int tl_subscribe(ulong client, byte[] names, UIntPtr namesLength, byte[] contract, UIntPtr contractLength, uint flags, out ulong subscription);
        [DllImport(Library)] internal static extern int tl_subscription_next(ulong subscription, ulong readings, UIntPtr readingsMax, int timeoutMs, out UIntPtr count);
        [DllImport(Library)] internal static extern int tl_subscription_close(ulong subscription);
        [DllImport(Library)] internal static extern int tl_readings_create(out ulong readings);
        [DllImport(Library)] internal static extern int tl_readings_close(ulong readings);
        [DllImport(Library)] internal static extern int tl_readings_count(ulong readings, out UIntPtr count);
        [DllImport(Library)] internal static extern int tl_readings_get(ulong readings, UIntPtr index, out Reading reading);
        [DllImport(Library)] internal static extern int tl_readings_text(ulong readings, UIntPtr index, byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_readings_event(ulong readings, out Event occurred, byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_engine_start(byte[] configuration, UIntPtr configurationLength, out ulong engine);
        [DllImport(Library)] internal static extern int tl_engine_close(ulong engine, uint graceMs);
        [DllImport(Library)] internal static extern int tl_engine_url(ulong engine, byte[] buffer, UIntPtr capacity, out UIntPtr length);
        [DllImport(Library)] internal static extern int tl_stream_writer_create(byte[] url, UIntPtr urlLength, byte[] elementType, UIntPtr typeLength, byte[] peer, UIntPtr peerLength, UIntPtr capacity, ushort enginePort, int timeoutMs, out ulong writer);
        [DllImport(Library)] internal static extern int tl_stream_reader_create(byte[] url, UIntPtr urlLength, byte[] elementType, UIntPtr typeLength, byte[] peer, UIntPtr peerLength, UIntPtr capacity, ushort enginePort, int timeoutMs, out ulong reader);
        [DllImport(Library)] internal static extern int tl_stream_write(ulong writer, double[] elements, UIntPtr elementBytes, UIntPtr count, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_flush(ulong writer, int until, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_writer_close(ulong writer, int timeoutMs, out ulong undelivered);
        [DllImport(Library)] internal static extern int tl_stream_read(ulong reader, [Out] double[] elements, UIntPtr elementBytes, UIntPtr minimum, UIntPtr capacity, int timeoutMs, out UIntPtr count);
        [DllImport(Library)] internal static extern int tl_stream_reader_close(ulong reader);

        internal delegate int ReadText(byte[] buffer, UIntPtr capacity, out UIntPtr length);

        internal static byte[] Utf8(string text)
        {
            return Encoding.UTF8.GetBytes(text ?? "");
        }

        internal static UIntPtr Size(int size)
        {
            return new UIntPtr((uint)size);
        }

        internal static string Text(ReadText read)
        {
            var buffer = new byte[256];
            for (;;)
            {
                UIntPtr length;
                int status = read(buffer, Size(buffer.Length), out length);
                if (status == ShortBuffer)
                {
                    buffer = new byte[(int)length.ToUInt32() + 1];
                    continue;
                }
                Check(status);
                return Encoding.UTF8.GetString(buffer, 0, (int)length.ToUInt32());
            }
        }

        internal static void Check(int status)
        {
            if (status == 0)
            {
                return;
            }
            var buffer = new byte[4096];
            UIntPtr length;
            tl_last_error_message(buffer, Size(buffer.Length), out length);
            var message = Encoding.UTF8.GetString(buffer, 0, Math.Min((int)length.ToUInt32(), buffer.Length - 1));
            tl_status_name(status, buffer, Size(buffer.Length), out length);
            var name = Encoding.UTF8.GetString(buffer, 0, (int)length.ToUInt32());
            throw new TrunklineException(status, name, message);
        }
    }

    /// <summary>An object of the library that is closed once.</summary>
    public abstract class Handle : IDisposable
    {
        private long number;

        internal Handle(ulong number)
        {
            this.number = (long)number;
        }

        /// <summary>The handle for functions of trunkline.h; 0 after Dispose.</summary>
        public ulong Number { get { return (ulong)Interlocked.Read(ref number); } }

        internal abstract void Close(ulong handle);

        public void Dispose()
        {
            var handle = (ulong)Interlocked.Exchange(ref number, 0);
            if (handle != 0)
            {
                Close(handle);
            }
            GC.SuppressFinalize(this);
        }

        ~Handle()
        {
            Dispose();
        }
    }

    /// <summary>Readings that a call has filled in. Use one again and again.</summary>
    public sealed class Readings : Handle
    {
        private static ulong Create()
        {
            ulong readings;
            Native.Check(Native.tl_readings_create(out readings));
            return readings;
        }

        public Readings() : base(Create()) { }

        internal override void Close(ulong handle)
        {
            Native.tl_readings_close(handle);
        }

        public int Count
        {
            get
            {
                UIntPtr count;
                Native.Check(Native.tl_readings_count(Number, out count));
                return (int)count.ToUInt32();
            }
        }

        public Reading this[int index]
        {
            get
            {
                Reading reading;
                Native.Check(Native.tl_readings_get(Number, Native.Size(index), out reading));
                return reading;
            }
        }

        /// <summary>The value of a reading of any type as text.</summary>
        public string Text(int index)
        {
            return Native.Text((byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.tl_readings_text(Number, Native.Size(index), buffer, capacity, out length));
        }

        /// <summary>The event after the readings; its kind is None if there is none.</summary>
        public Event Event
        {
            get
            {
                Event occurred;
                UIntPtr length;
                Native.Check(Native.tl_readings_event(Number, out occurred, null, UIntPtr.Zero, out length));
                return occurred;
            }
        }
    }

    /// <summary>A subscription with a queue.</summary>
    public sealed class Subscription : Handle
    {
        internal Subscription(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_subscription_close(handle);
        }

        /// <summary>Waits for readings or an event. Returns false if nothing arrived in time.</summary>
        public bool Next(Readings into, int most, int timeoutMs)
        {
            UIntPtr count;
            int status = Native.tl_subscription_next(Number, into.Number, Native.Size(most), timeoutMs, out count);
            if (status == Native.Timeout)
            {
                return false;
            }
            Native.Check(status);
            return true;
        }

        /// <summary>As Next, in a thread of the pool.</summary>
        public Task<bool> NextAsync(Readings into, int most, int timeoutMs)
        {
            return Task.Run(() => Next(into, most, timeoutMs));
        }
    }

    /// <summary>A connection to an engine. It reconnects automatically.</summary>
    public sealed class Client : Handle
    {
        private Client(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_client_close(handle);
        }

        /// <summary>Connects to an engine: <c>tl://host[:port]</c>, or <c>tl:///</c> for this machine.</summary>
        public static Client Connect(string url, int timeoutMs)
        {
            var text = Native.Utf8(url);
            ulong number;
            int status = Native.tl_connect(text, Native.Size(text.Length), timeoutMs, out number);
            try
            {
                Native.Check(status);
            }
            catch (TrunklineException)
            {
                if (number != 0)
                {
                    Native.tl_client_close(number);
                }
                throw;
            }
            return new Client(number);
        }

        /// <summary>Opens variables in one round trip. Throws if one of them cannot be opened.</summary>
        public ulong[] Open(IEnumerable<string> names, int timeoutMs)
        {
            var list = new List<string>(names);
            var text = Native.Utf8(string.Join("\n", list));
            var variables = new ulong[list.Count];
            UIntPtr count;
            Native.Check(Native.tl_open(Number, text, Native.Size(text.Length), timeoutMs, variables, null, Native.Size(list.Count), out count));
            return variables;
        }

        public ulong Open(string name, int timeoutMs)
        {
            return Open(new[] { name }, timeoutMs)[0];
        }

        /// <summary>Reads numbers. Throws if one of them cannot be read.</summary>
        public double[] Read(ulong[] variables, int timeoutMs)
        {
            var values = new double[variables.Length];
            Native.Check(Native.tl_read_f64(Number, variables, Native.Size(variables.Length), timeoutMs, values, null));
            return values;
        }

        public double Read(ulong variable, int timeoutMs)
        {
            return Read(new[] { variable }, timeoutMs)[0];
        }

        /// <summary>Reads values of any type with their quality and times.</summary>
        public void Read(ulong[] variables, Readings into, int timeoutMs)
        {
            Native.Check(Native.tl_read(Number, variables, Native.Size(variables.Length), timeoutMs, into.Number));
        }

        /// <summary>Reads a value of any type as text.</summary>
        public string ReadText(ulong variable, int timeoutMs)
        {
            return Native.Text((byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                Native.tl_read_text(Number, variable, timeoutMs, buffer, capacity, out length));
        }

        /// <summary>Writes numbers, and waits for their outcomes. Throws if one was not carried out.</summary>
        public void Write(ulong[] variables, double[] values, int timeoutMs)
        {
            if (values.Length != variables.Length)
            {
                throw new ArgumentException("there must be one value for each variable");
            }
            Native.Check(Native.tl_write_f64(Number, variables, values, Native.Size(variables.Length), timeoutMs, null));
        }

        public void Write(ulong variable, double value, int timeoutMs)
        {
            Write(new[] { variable }, new[] { value }, timeoutMs);
        }

        /// <summary>Writes a value of any type, given as text.</summary>
        public void WriteText(ulong variable, string value, int timeoutMs)
        {
            var text = Native.Utf8(value);
            Native.Check(Native.tl_write_text(Number, variable, text, Native.Size(text.Length), timeoutMs));
        }

        /// <summary>Subscribes to names under a contract, such as <c>last:1000</c>.</summary>
        public Subscription Subscribe(IEnumerable<string> names, string contract)
        {
            var text = Native.Utf8(string.Join("\n", names));
            var terms = Native.Utf8(contract);
            ulong number;
            Native.Check(Native.tl_subscribe(Number, text, Native.Size(text.Length), terms, Native.Size(terms.Length), 0, out number));
            return new Subscription(number);
        }

        /// <summary>An empty list of writes: a batch, or a group.</summary>
        public Writes CreateWrites()
        {
            ulong number;
            Native.Check(Native.tl_writes_create(Number, out number));
            return new Writes(number);
        }
    }

    /// <summary>A list of writes that are sent together.</summary>
    public sealed class Writes : Handle
    {
        internal Writes(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_writes_close(handle);
        }

        public Writes Add(ulong variable, double value)
        {
            Native.Check(Native.tl_writes_add_f64(Number, variable, value));
            return this;
        }

        public Writes Add(ulong variable, string value)
        {
            var text = Native.Utf8(value);
            Native.Check(Native.tl_writes_add_text(Number, variable, text, Native.Size(text.Length)));
            return this;
        }

        /// <summary>Sends all writes in one round trip. Throws if one was not carried out.</summary>
        public void Send(int timeoutMs)
        {
            Native.Check(Native.tl_write_batch(Number, timeoutMs, null, UIntPtr.Zero));
        }

        /// <summary>Writes all or nothing. Returns the commit number.</summary>
        public ulong SendAsGroup(int timeoutMs)
        {
            ulong commit;
            Native.Check(Native.tl_write_group(Number, timeoutMs, out commit));
            return commit;
        }
    }

    /// <summary>An engine in this process.</summary>
    public sealed class Engine : Handle
    {
        private Engine(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_engine_close(handle, 1000);
        }

        /// <summary>Starts an engine from a text in the notation of configuration files.</summary>
        public static Engine Start(string configuration)
        {
            var text = Native.Utf8(configuration);
            ulong number;
            Native.Check(Native.tl_engine_start(text, Native.Size(text.Length), out number));
            return new Engine(number);
        }

        public string Url
        {
            get
            {
                return Native.Text((byte[] buffer, UIntPtr capacity, out UIntPtr length) =>
                    Native.tl_engine_url(Number, buffer, capacity, out length));
            }
        }
    }

    /// <summary>The writer of a stream of doubles.</summary>
    public sealed class StreamWriter : Handle
    {
        private StreamWriter(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            ulong undelivered;
            Native.tl_stream_writer_close(handle, 10000, out undelivered);
        }

        /// <summary>Creates a writer, and waits for its reader. An empty peer lets the reader name this end.</summary>
        public static StreamWriter Create(string url, string peer, int capacity, ushort enginePort, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Native.Utf8("f64"), other = Native.Utf8(peer);
            ulong number;
            Native.Check(Native.tl_stream_writer_create(name, Native.Size(name.Length), type, Native.Size(type.Length), other, Native.Size(other.Length), Native.Size(capacity), enginePort, timeoutMs, out number));
            return new StreamWriter(number);
        }

        /// <summary>Writes all elements or none.</summary>
        public void Write(double[] elements, int timeoutMs)
        {
            Native.Check(Native.tl_stream_write(Number, elements, Native.Size(8), Native.Size(elements.Length), timeoutMs));
        }

        /// <summary>Waits until the reader's program has read all elements.</summary>
        public void FlushUntilRead(int timeoutMs)
        {
            Native.Check(Native.tl_stream_flush(Number, 2, timeoutMs));
        }
    }

    /// <summary>The reader of a stream of doubles.</summary>
    public sealed class StreamReader : Handle
    {
        private StreamReader(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_stream_reader_close(handle);
        }

        /// <summary>Creates a reader, and waits for its writer. An empty peer lets the writer name this end.</summary>
        public static StreamReader Create(string url, string peer, int capacity, ushort enginePort, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Native.Utf8("f64"), other = Native.Utf8(peer);
            ulong number;
            Native.Check(Native.tl_stream_reader_create(name, Native.Size(name.Length), type, Native.Size(type.Length), other, Native.Size(other.Length), Native.Size(capacity), enginePort, timeoutMs, out number));
            return new StreamReader(number);
        }

        /// <summary>Reads at least one element. Returns 0 at the end of the stream.</summary>
        public int Read(double[] into, int timeoutMs)
        {
            UIntPtr count;
            int status = Native.tl_stream_read(Number, into, Native.Size(8), Native.Size(1), Native.Size(into.Length), timeoutMs, out count);
            if (status != Native.StreamEnded)
            {
                Native.Check(status);
            }
            return (int)count.ToUInt32();
        }
    }
}
