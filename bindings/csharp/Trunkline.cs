// Trunkline for C#: P/Invoke bindings of the C library (trunkline.h), in one file. Add it to a project, and
// compile it with -unsafe; at run time, the program needs libtrunkline.so.0. Spans are part of Mono 6 and of
// .NET; .NET Framework needs the package System.Memory. Visual Basic has no spans, and uses the overloads with
// arrays.
//
// Calls throw a TrunklineException with the status and the message of the library. Objects close their
// handle with Dispose. All calls may be made from all threads; one thread at a time uses a Readings, a Writes
// or the end of a stream. Lists of names have one name per line. Timeouts are in milliseconds; -1 is no limit.
//
// Async methods queue the call: a thread of the object carries out its queued calls in order, so that a wait
// takes no thread of the pool. Dispose ends a wait with the status "closed".

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Trunkline
{
    /// <summary>Why a call did not do its work.</summary>
    public sealed unsafe class TrunklineException : Exception
    {
        /// <summary>The name of a status.</summary>
        public static string NameOf(int status)
        {
            return Native.Text((buffer, capacity, length) => Native.tl_status_name(status, buffer, capacity, length));
        }

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
        private byte reserved0, reserved1, reserved2, reserved3, reserved4, reserved5;

        public bool HasValue { get { return hasValue != 0; } }
        public bool Own { get { return own != 0; } }
        public bool IsGood { get { return (Quality & 3) == 0; } }
        public DateTime SourceTime { get { return Time.Of(SourceTimestampNs); } }
    }

    /// <summary>Times of the library: UTC nanoseconds since 1970.</summary>
    public static class Time
    {
        /// <summary>An open start or end of a period, and a time that does not apply.</summary>
        public const long Open = long.MinValue;

        /// <summary>As the beginning of followed alarms: changes from now on.</summary>
        public const long SinceNow = long.MaxValue;

        public static DateTime Of(long ns)
        {
            return new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc).AddTicks(ns / 100);
        }
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
        Ended = 4,
        Appeared = 5,
        Gone = 6,
        Listed = 7,
        PatternError = 8
    }

    /// <summary>How a write ended; the members are those of tl_outcome.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Outcome
    {
        public ulong Epoch;
        public ulong Sequence;
        public OutcomeKind Kind;
        public int Status;
    }

    public enum OutcomeKind
    {
        None = 0,
        Applied = 1,
        Unchanged = 2,
        Superseded = 3,
        Refused = 4,
        Unknown = 5,
        NotTried = 6
    }

    public enum Verb
    {
        Put = 0,
        Set = 1,
        Force = 2,
        Send = 3,
        Request = 4,
        Unforce = 5
    }

    /// <summary>Counts of all writes of a client by outcome; the members are those of tl_write_counts.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct WriteCounts
    {
        public ulong Issued, Applied, Unchanged, Superseded, Refused, WouldBlock, Unknown, Cancelled;
    }

    /// <summary>The state of an end of a stream; the members are those of tl_stream_properties.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct StreamProperties
    {
        public ulong Capacity, InBuffer, Total, Disconnections;
        public long AwayNs;
        private int isConnected, isEnded;

        public bool IsConnected { get { return isConnected != 0; } }
        public bool IsEnded { get { return isEnded != 0; } }
    }

    /// <summary>One of several peers of an end; the members are those of tl_stream_peer.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct StreamPeer
    {
        public ulong Number, Waiting, Lost;
        private int isConnected, reserved;

        public bool IsConnected { get { return isConnected != 0; } }
    }

    /// <summary>A reader that has left a writer with several; the members are those of tl_stream_departed.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct StreamDeparted
    {
        public ulong Number, Undelivered, InDoubt, Lost;
    }

    /// <summary>Elements of one of several writers, or its end; the members are those of tl_stream_run.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct StreamRun
    {
        public ulong Writer, Count;
        public RunKind Kind;
        private int reserved;
    }

    public enum RunKind
    {
        Elements = 0,
        Closed = 1,
        Aborted = 2,
        Fault = 3
    }

    public enum Stage
    {
        Sent = 0,
        Available = 1,
        Read = 2,
        Durable = 3
    }

    /// <summary>The state of a recording; the members are those of tl_recorder_status.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct RecorderStatus
    {
        public ulong Variables, Updates, InFile, OnDisk, Lost, UnknownGaps, Bytes;
        public uint Files, Refused;
        private int isConnected, isFollowing, hasError, reserved;

        public bool IsConnected { get { return isConnected != 0; } }
        public bool IsFollowing { get { return isFollowing != 0; } }
        public bool HasError { get { return hasError != 0; } }
    }

    /// <summary>Counts of a playback; the members are those of tl_played.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Played
    {
        public ulong Updates, Applied, Failed, Late, Refused;
    }

    /// <summary>A summary of rows of history; the members are those of tl_bucket.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Bucket
    {
        public long StartNs;
        public ulong WidthNs, Count, Bad, Lost;
        public double First, Last, Min, Max, Mean;
        public uint Item;
        private uint reserved;
    }

    public enum HistoryForm
    {
        Rows = 0,
        Last = 1,
        Interpolated = 2,
        Stepped = 3,
        Buckets = 4,
        Points = 5,
        Total = 6
    }

    /// <summary>An alarm, or a change of it; the members are those of tl_alarm.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Alarm
    {
        public double Value, Limit;
        public long RaisedNs, ClearedNs, AcknowledgedNs, ShelvedUntilNs, ChangedNs;
        public ulong Number;
        public AlarmState State, PreviousState;
        public int Priority;
        private int isActive;

        public bool IsActive { get { return isActive != 0; } }
    }

    public enum AlarmState
    {
        Normal = 0,
        Unacknowledged = 1,
        Acknowledged = 2,
        ReturnedUnacknowledged = 3,
        LatchedUnacknowledged = 4,
        LatchedAcknowledged = 5,
        Shelved = 6,
        SuppressedByDesign = 7,
        OutOfService = 8
    }

    public enum AlarmAction
    {
        Acknowledge = 1,
        Reset = 2,
        Shelve = 3,
        Unshelve = 4,
        TakeOutOfService = 5,
        ReturnToService = 6
    }

    public enum AlarmText
    {
        Variable = 0,
        Alarm = 1,
        State = 2,
        Area = 3,
        Description = 4,
        Help = 5,
        Who = 6,
        Comment = 7,
        Event = 8
    }

    /// <summary>An entry of the audit trail; the members are those of tl_audit_entry.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct AuditEntry
    {
        public ulong Number;
        public long TimeNs;
        public ulong Lost;
        public AuditOutcome Outcome;
        public int Action;
    }

    public enum AuditOutcome
    {
        Done = 0,
        Unchanged = 1,
        Refused = 2,
        Unknown = 3,
        Lost = 4
    }

    public enum AuditText
    {
        Who = 0,
        From = 1,
        Action = 2,
        Name = 3,
        Old = 4,
        New = 5,
        Reason = 6
    }

    /// <summary>Control of a folder, or a request for it; the members are those of tl_control.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Control
    {
        public ulong Number;
        public long SinceNs, LeftMs;
        public ControlLevel Level;
        public ControlHolder Holder;
        private int isWaiting, isOwn;

        public bool IsWaiting { get { return isWaiting != 0; } }
        public bool IsOwn { get { return isOwn != 0; } }
    }

    public enum ControlLevel
    {
        Operator = 0,
        Supervisor = 1
    }

    public enum ControlHolder
    {
        Session = 0,
        Identity = 1
    }

    /// <summary>The state of an I/O server; the members are those of tl_provider_status.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct ProviderStatus
    {
        private int isProvided;
        public uint Variables, Missing;
        private uint reserved;

        public bool IsProvided { get { return isProvided != 0; } }
    }

    /// <summary>An order to an I/O server; the members are those of tl_order.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct Order
    {
        public ulong Number;
        public double Value;
        public long Integer;
        public int Kind;
        public uint Item;
        public int DataType;
        private int reserved;
    }

    // The functions of trunkline.h. A test compares them with the header.
    internal static unsafe class Native
    {
        private const string Library = "trunkline";

        internal const int ShortBuffer = -4;
        internal const int TimedOut = -5;
        internal const int StreamEnded = -17;

        [DllImport(Library)] internal static extern int tl_last_error();
        [DllImport(Library)] internal static extern int tl_last_error_message(byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_status_name(int status, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_connect(byte* url, UIntPtr urlLength, int timeoutMs, ulong* client);
        [DllImport(Library)] internal static extern int tl_client_close(ulong client);
        [DllImport(Library)] internal static extern int tl_wait_connected(ulong client, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_client_state(ulong client, int* state);
        [DllImport(Library)] internal static extern int tl_client_cause(ulong client, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_open(ulong client, byte* names, UIntPtr namesLength, int timeoutMs, ulong* variables, int* statuses, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_close_variables(ulong client, ulong* variables, UIntPtr count, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_variable_type(ulong client, ulong variable, int* dataType, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_read(ulong client, ulong* variables, UIntPtr count, int timeoutMs, ulong readings);
        [DllImport(Library)] internal static extern int tl_snapshot(ulong client, ulong* variables, UIntPtr count, int timeoutMs, ulong readings, long* instantNs, int* isConsistent);
        [DllImport(Library)] internal static extern int tl_read_f64(ulong client, ulong* variables, UIntPtr count, int timeoutMs, double* values, int* statuses);
        [DllImport(Library)] internal static extern int tl_read_i64(ulong client, ulong* variables, UIntPtr count, int timeoutMs, long* values, int* statuses);
        [DllImport(Library)] internal static extern int tl_read_text(ulong client, ulong variable, int timeoutMs, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_request(ulong client, ulong* variables, UIntPtr count, int timeoutMs, int* statuses);
        [DllImport(Library)] internal static extern int tl_lease(ulong client, ulong* variables, UIntPtr count, uint durationMs, int timeoutMs, int* statuses);
        [DllImport(Library)] internal static extern int tl_find(ulong client, byte* pattern, UIntPtr patternLength, UIntPtr limit, int timeoutMs, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_why(ulong client, byte* name, UIntPtr nameLength, int timeoutMs, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_readings_create(ulong* readings);
        [DllImport(Library)] internal static extern int tl_readings_close(ulong readings);
        [DllImport(Library)] internal static extern int tl_readings_count(ulong readings, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_readings_get(ulong readings, UIntPtr index, Reading* reading);
        [DllImport(Library)] internal static extern int tl_readings_columns(ulong readings, uint* items, double* values, long* sourceTimestampsNs, uint* qualities, ulong* sequences, long* lost, int* statuses, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_readings_text(ulong readings, UIntPtr index, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_readings_bytes(ulong readings, UIntPtr index, byte* bytes, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_readings_array_f64(ulong readings, UIntPtr index, double* numbers, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_readings_message(ulong readings, UIntPtr index, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_readings_event(ulong readings, Event* event_, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_write_f64(ulong client, ulong* variables, double* values, UIntPtr count, int timeoutMs, int* statuses);
        [DllImport(Library)] internal static extern int tl_write_i64(ulong client, ulong* variables, long* values, UIntPtr count, int timeoutMs, int* statuses);
        [DllImport(Library)] internal static extern int tl_write_text(ulong client, ulong variable, byte* value, UIntPtr valueLength, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_writes_create(ulong client, ulong* writes);
        [DllImport(Library)] internal static extern int tl_writes_close(ulong writes);
        [DllImport(Library)] internal static extern int tl_writes_clear(ulong writes);
        [DllImport(Library)] internal static extern int tl_writes_add_f64(ulong writes, ulong variable, double value);
        [DllImport(Library)] internal static extern int tl_writes_add_i64(ulong writes, ulong variable, long value);
        [DllImport(Library)] internal static extern int tl_writes_add_text(ulong writes, ulong variable, byte* value, UIntPtr valueLength);
        [DllImport(Library)] internal static extern int tl_writes_add_bytes(ulong writes, ulong variable, byte* bytes, UIntPtr count);
        [DllImport(Library)] internal static extern int tl_writes_add_array_f64(ulong writes, ulong variable, double* numbers, UIntPtr count);
        [DllImport(Library)] internal static extern int tl_writes_add_order(ulong writes, ulong variable, int verb);
        [DllImport(Library)] internal static extern int tl_writes_set_verb(ulong writes, int verb);
        [DllImport(Library)] internal static extern int tl_writes_expect(ulong writes, ulong epoch, ulong sequence);
        [DllImport(Library)] internal static extern int tl_writes_stamp(ulong writes, long sourceTimestampNs, uint quality);
        [DllImport(Library)] internal static extern int tl_writes_newest(ulong writes);
        [DllImport(Library)] internal static extern int tl_write_batch(ulong writes, int timeoutMs, int* statuses, UIntPtr capacity);
        [DllImport(Library)] internal static extern int tl_write_group(ulong writes, int timeoutMs, ulong* commit);
        [DllImport(Library)] internal static extern int tl_write_untracked(ulong writes, uint lifeMs);
        [DllImport(Library)] internal static extern int tl_flush(ulong client, int timeoutMs, WriteCounts* counts);
        [DllImport(Library)] internal static extern int tl_writes_outcome(ulong writes, UIntPtr index, Outcome* outcome, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_subscribe(ulong client, byte* names, UIntPtr namesLength, byte* contract, UIntPtr contractLength, uint flags, ulong* subscription);
        [DllImport(Library)] internal static extern int tl_subscribe_patterns(ulong client, byte* patterns, UIntPtr patternsLength, byte* excluded, UIntPtr excludedLength, byte* contract, UIntPtr contractLength, uint flags, ulong* subscription);
        [DllImport(Library)] internal static extern int tl_subscription_close(ulong subscription);
        [DllImport(Library)] internal static extern int tl_subscription_next(ulong subscription, ulong readings, UIntPtr readingsMax, int timeoutMs, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_subscription_value(ulong subscription, uint item, Reading* reading, int* hasReading);
        [DllImport(Library)] internal static extern int tl_subscription_item_name(ulong subscription, uint item, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_stream_options_create(ulong* options);
        [DllImport(Library)] internal static extern int tl_stream_options_close(ulong options);
        [DllImport(Library)] internal static extern int tl_stream_options_set_capacity(ulong options, UIntPtr capacity);
        [DllImport(Library)] internal static extern int tl_stream_options_set_engine_port(ulong options, ushort port);
        [DllImport(Library)] internal static extern int tl_stream_options_set_gone_after(ulong options, int goneAfterMs);
        [DllImport(Library)] internal static extern int tl_stream_options_set_insecure(ulong options, int isPermitted);
        [DllImport(Library)] internal static extern int tl_stream_options_set_journal(ulong options, byte* folder, UIntPtr folderLength, ulong bytesMax, int durability, int commit);
        [DllImport(Library)] internal static extern int tl_stream_writer_create(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, byte* peer, UIntPtr peerLength, UIntPtr capacity, ushort enginePort, int timeoutMs, ulong* writer);
        [DllImport(Library)] internal static extern int tl_stream_writer_create_with(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, byte* peer, UIntPtr peerLength, ulong options, int timeoutMs, ulong* writer);
        [DllImport(Library)] internal static extern int tl_stream_fan_out_create(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, ulong options, UIntPtr readersMin, UIntPtr readersMax, ulong quota, int timeoutMs, ulong* writer);
        [DllImport(Library)] internal static extern int tl_stream_write(ulong writer, void* elements, UIntPtr elementBytes, UIntPtr count, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_write_text(ulong writer, byte* value, UIntPtr valueLength, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_reserve(ulong writer, UIntPtr elementBytes, UIntPtr count, int timeoutMs, void** elements);
        [DllImport(Library)] internal static extern int tl_stream_commit(ulong writer, UIntPtr count, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_flush(ulong writer, int until, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_stream_writer_close(ulong writer, int timeoutMs, ulong* undelivered);
        [DllImport(Library)] internal static extern int tl_stream_writer_abort(ulong writer, byte* reason, UIntPtr reasonLength);
        [DllImport(Library)] internal static extern int tl_stream_writer_suspend(ulong writer);
        [DllImport(Library)] internal static extern int tl_stream_writer_properties(ulong writer, StreamProperties* properties);
        [DllImport(Library)] internal static extern int tl_stream_writer_readers(ulong writer, StreamPeer* readers, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_stream_writer_reader_url(ulong writer, ulong number, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_stream_writer_departed(ulong writer, StreamDeparted* reader, int* hasReader);
        [DllImport(Library)] internal static extern int tl_stream_reader_create(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, byte* peer, UIntPtr peerLength, UIntPtr capacity, ushort enginePort, int timeoutMs, ulong* reader);
        [DllImport(Library)] internal static extern int tl_stream_reader_create_with(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, byte* peer, UIntPtr peerLength, ulong options, int timeoutMs, ulong* reader);
        [DllImport(Library)] internal static extern int tl_stream_fan_in_create(byte* url, UIntPtr urlLength, byte* elementType, UIntPtr typeLength, ulong options, UIntPtr writersMin, UIntPtr writersMax, int timeoutMs, ulong* reader);
        [DllImport(Library)] internal static extern int tl_stream_read(ulong reader, void* elements, UIntPtr elementBytes, UIntPtr minimum, UIntPtr capacity, int timeoutMs, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_stream_read_text(ulong reader, int timeoutMs, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_stream_acquire(ulong reader, UIntPtr elementBytes, UIntPtr minimum, UIntPtr maximum, int timeoutMs, void** elements, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_stream_release(ulong reader);
        [DllImport(Library)] internal static extern int tl_stream_reader_commit(ulong reader);
        [DllImport(Library)] internal static extern int tl_stream_read_run(ulong reader, void* elements, UIntPtr elementBytes, UIntPtr capacity, int timeoutMs, StreamRun* run);
        [DllImport(Library)] internal static extern int tl_stream_run_url(ulong reader, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_stream_run_reason(ulong reader, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_stream_reader_writers(ulong reader, StreamPeer* writers, UIntPtr capacity, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_stream_reader_close(ulong reader);
        [DllImport(Library)] internal static extern int tl_stream_reader_destroy(ulong reader);
        [DllImport(Library)] internal static extern int tl_stream_reader_properties(ulong reader, StreamProperties* properties);
        [DllImport(Library)] internal static extern int tl_recorder_start(ulong client, byte* patterns, UIntPtr patternsLength, byte* path, UIntPtr pathLength, byte* contract, UIntPtr contractLength, int timeoutMs, ulong* recorder);
        [DllImport(Library)] internal static extern int tl_recorder_progress(ulong recorder, RecorderStatus* status);
        [DllImport(Library)] internal static extern int tl_recorder_error(ulong recorder, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_recorder_stop(ulong recorder, RecorderStatus* status);
        [DllImport(Library)] internal static extern int tl_play(ulong client, byte* path, UIntPtr pathLength, double speed, int keepTimestamps, Played* played);
        [DllImport(Library)] internal static extern int tl_history_open(ulong client, byte* patterns, UIntPtr patternsLength, long sinceNs, long untilNs, int form, ulong intervalNs, ulong* history);
        [DllImport(Library)] internal static extern int tl_history_next(ulong history, ulong readings, uint rowsMax, int timeoutMs, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_history_next_buckets(ulong history, Bucket* buckets, UIntPtr capacity, int timeoutMs, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_history_item_name(ulong history, uint item, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_history_close(ulong history);
        [DllImport(Library)] internal static extern int tl_alarms(ulong client, byte* pattern, UIntPtr patternLength, byte* area, UIntPtr areaLength, int priorityMin, byte* states, UIntPtr statesLength, int timeoutMs, ulong* alarms);
        [DllImport(Library)] internal static extern int tl_alarms_count(ulong alarms, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_alarms_get(ulong alarms, UIntPtr index, Alarm* alarm);
        [DllImport(Library)] internal static extern int tl_alarms_text(ulong alarms, UIntPtr index, int field, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_alarms_close(ulong alarms);
        [DllImport(Library)] internal static extern int tl_act_on_alarms(ulong client, byte* alarms, UIntPtr alarmsLength, int action, uint shelveMs, byte* comment, UIntPtr commentLength, int timeoutMs, int* states, int* statuses, UIntPtr capacity);
        [DllImport(Library)] internal static extern int tl_follow_alarms(ulong client, byte* pattern, UIntPtr patternLength, byte* area, UIntPtr areaLength, int priorityMin, long sinceNs, int timeoutMs, ulong* changes);
        [DllImport(Library)] internal static extern int tl_alarm_changes_next(ulong changes, int timeoutMs, Alarm* alarm, ulong* lost);
        [DllImport(Library)] internal static extern int tl_alarm_changes_text(ulong changes, int field, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_alarm_changes_close(ulong changes);
        [DllImport(Library)] internal static extern int tl_audit(ulong client, byte* pattern, UIntPtr patternLength, byte* who, UIntPtr whoLength, long sinceNs, int newestFirst, ulong* audit);
        [DllImport(Library)] internal static extern int tl_audit_next(ulong audit, int timeoutMs, AuditEntry* audited, int* hasEntry);
        [DllImport(Library)] internal static extern int tl_audit_text(ulong audit, int field, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_audit_close(ulong audit);
        [DllImport(Library)] internal static extern int tl_take_control(ulong client, byte* folder, UIntPtr folderLength, int level, int holder, uint durationMs, int timeoutMs, Control* control);
        [DllImport(Library)] internal static extern int tl_request_control(ulong client, byte* folder, UIntPtr folderLength, int level, int holder, uint durationMs, int timeoutMs, Control* control);
        [DllImport(Library)] internal static extern int tl_give_control(ulong client, byte* folder, UIntPtr folderLength, ulong number, int timeoutMs, Control* control);
        [DllImport(Library)] internal static extern int tl_release_control(ulong client, byte* folder, UIntPtr folderLength, int timeoutMs);
        [DllImport(Library)] internal static extern int tl_controls(ulong client, byte* folder, UIntPtr folderLength, int own, int timeoutMs, ulong* revision, ulong* controls);
        [DllImport(Library)] internal static extern int tl_controls_count(ulong controls, UIntPtr* count);
        [DllImport(Library)] internal static extern int tl_controls_get(ulong controls, UIntPtr index, Control* control);
        [DllImport(Library)] internal static extern int tl_controls_folder(ulong controls, UIntPtr index, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_controls_by(ulong controls, UIntPtr index, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_controls_close(ulong controls);
        [DllImport(Library)] internal static extern int tl_follow_control(ulong client, ulong known, int timeoutMs, ulong* revision);
        [DllImport(Library)] internal static extern int tl_provider_start(byte* url, UIntPtr urlLength, byte* name, UIntPtr nameLength, byte* items, UIntPtr itemsLength, uint orderTimeoutMs, uint flags, ulong* provider);
        [DllImport(Library)] internal static extern int tl_provider_close(ulong provider);
        [DllImport(Library)] internal static extern int tl_provider_state(ulong provider, ProviderStatus* status, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_provider_publish_f64(ulong provider, uint* items, double* values, UIntPtr count, long sourceTimestampNs);
        [DllImport(Library)] internal static extern int tl_provider_publish_text(ulong provider, uint item, byte* dataType, UIntPtr typeLength, byte* value, UIntPtr valueLength, uint quality, long sourceTimestampNs);
        [DllImport(Library)] internal static extern int tl_provider_fail(ulong provider, uint item, uint quality);
        [DllImport(Library)] internal static extern int tl_provider_next(ulong provider, int timeoutMs, Order* order, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_provider_accept(ulong provider, ulong number, int dataType, double value);
        [DllImport(Library)] internal static extern int tl_provider_refuse(ulong provider, ulong number, byte* reason, UIntPtr reasonLength);
        [DllImport(Library)] internal static extern int tl_engine_start(byte* configuration, UIntPtr configurationLength, ulong* engine);
        [DllImport(Library)] internal static extern int tl_engine_close(ulong engine, uint graceMs);
        [DllImport(Library)] internal static extern int tl_engine_url(ulong engine, byte* buffer, UIntPtr capacity, UIntPtr* length);
        [DllImport(Library)] internal static extern int tl_engine_deploy(ulong engine, byte* configuration, UIntPtr configurationLength);
        [DllImport(Library)] internal static extern int tl_engine_client(ulong engine, ulong* client);
        [DllImport(Library)] internal static extern int tl_engine_variable(ulong engine, byte* name, UIntPtr nameLength, ulong* variable);
        [DllImport(Library)] internal static extern int tl_host_close(ulong variable);
        [DllImport(Library)] internal static extern int tl_host_read_f64(ulong variable, double* value, long* sourceTimestampNs, uint* quality, ulong* sequence);
        [DllImport(Library)] internal static extern int tl_host_write_f64(ulong variable, double value, ulong* sequence);

        internal delegate int ReadText(byte* buffer, UIntPtr capacity, UIntPtr* length);

        internal static byte[] Utf8(string text)
        {
            return Encoding.UTF8.GetBytes(text ?? "");
        }

        internal static byte[] Lines(IEnumerable<string> lines)
        {
            return Utf8(string.Join("\n", lines ?? new string[0]));
        }

        internal static UIntPtr Size(int size)
        {
            return new UIntPtr((uint)size);
        }

        internal static UIntPtr Size(byte[] text)
        {
            return Size(text.Length);
        }

        internal static string Text(ReadText read)
        {
            var bytes = new byte[256];
            for (;;)
            {
                UIntPtr length;
                int status;
                fixed (byte* buffer = bytes)
                {
                    status = read(buffer, Size(bytes.Length), &length);
                }
                if (status == ShortBuffer)
                {
                    bytes = new byte[(int)length.ToUInt32() + 1];
                    continue;
                }
                Check(status);
                return Encoding.UTF8.GetString(bytes, 0, (int)length.ToUInt32());
            }
        }

        internal static void Check(int status)
        {
            if (status == 0)
            {
                return;
            }
            var bytes = new byte[4096];
            string message, name;
            fixed (byte* buffer = bytes)
            {
                UIntPtr length;
                tl_last_error_message(buffer, Size(bytes.Length), &length);
                message = Encoding.UTF8.GetString(bytes, 0, Math.Min((int)length.ToUInt32(), bytes.Length - 1));
                tl_status_name(status, buffer, Size(bytes.Length), &length);
                name = Encoding.UTF8.GetString(bytes, 0, (int)length.ToUInt32());
            }
            throw new TrunklineException(status, name, message);
        }

        /// <summary>Returns false after a timeout.</summary>
        internal static bool CheckInTime(int status)
        {
            if (status == TimedOut)
            {
                return false;
            }
            Check(status);
            return true;
        }
    }

    /// <summary>The queued calls of an object, which one thread carries out in order.</summary>
    internal sealed class CallQueue
    {
        private readonly Queue<Action> calls = new Queue<Action>();
        private bool isEnded;

        internal CallQueue(string name)
        {
            new Thread(Run) { IsBackground = true, Name = name }.Start();
        }

        internal Task<T> Add<T>(Func<T> call)
        {
            var result = new TaskCompletionSource<T>();
            lock (calls)
            {
                if (isEnded)
                {
                    throw new ObjectDisposedException("the object was closed");
                }
                calls.Enqueue(() =>
                {
                    try
                    {
                        var answer = call();
                        // The program's continuation must not run on the thread of the queue.
                        ThreadPool.QueueUserWorkItem(_ => result.TrySetResult(answer));
                    }
                    catch (Exception error)
                    {
                        ThreadPool.QueueUserWorkItem(_ => result.TrySetException(error));
                    }
                });
                Monitor.Pulse(calls);
            }
            return result.Task;
        }

        internal void End()
        {
            lock (calls)
            {
                isEnded = true;
                Monitor.Pulse(calls);
            }
        }

        private void Run()
        {
            for (;;)
            {
                Action call;
                lock (calls)
                {
                    while (calls.Count == 0 && !isEnded)
                    {
                        Monitor.Wait(calls);
                    }
                    if (calls.Count == 0)
                    {
                        return;
                    }
                    call = calls.Dequeue();
                }
                call();
            }
        }
    }

    /// <summary>An object of the library that is closed once.</summary>
    public abstract class Handle : IDisposable
    {
        private long number;
        private CallQueue queue;

        internal Handle(ulong number)
        {
            this.number = (long)number;
        }

        /// <summary>The handle for functions of trunkline.h; 0 after Dispose.</summary>
        public ulong Number { get { return (ulong)Interlocked.Read(ref number); } }

        internal abstract void Close(ulong handle);

        internal Task<T> Queue<T>(Func<T> call)
        {
            CallQueue calls;
            lock (this)
            {
                calls = queue = queue ?? new CallQueue(GetType().Name);
            }
            return calls.Add(call);
        }

        public void Dispose()
        {
            var handle = (ulong)Interlocked.Exchange(ref number, 0);
            if (handle != 0)
            {
                Close(handle);
            }
            lock (this)
            {
                if (queue != null)
                {
                    queue.End();
                }
            }
            GC.SuppressFinalize(this);
        }

        ~Handle()
        {
            var handle = (ulong)Interlocked.Exchange(ref number, 0);
            if (handle != 0)
            {
                Close(handle);
            }
        }
    }

    /// <summary>Readings that a call has filled in. Use one again and again.</summary>
    public sealed unsafe class Readings : Handle
    {
        private static ulong Create()
        {
            ulong readings;
            Native.Check(Native.tl_readings_create(&readings));
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
                Native.Check(Native.tl_readings_count(Number, &count));
                return (int)count.ToUInt32();
            }
        }

        public Reading this[int index]
        {
            get
            {
                Reading reading;
                Native.Check(Native.tl_readings_get(Number, Native.Size(index), &reading));
                return reading;
            }
        }

        /// <summary>The value of a reading of any type as text.</summary>
        public string Text(int index)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_readings_text(Number, Native.Size(index), buffer, capacity, length));
        }

        /// <summary>The elements of a reading that is an array of numbers.</summary>
        public double[] Array(int index)
        {
            UIntPtr count;
            Native.Check(Native.tl_readings_array_f64(Number, Native.Size(index), null, UIntPtr.Zero, &count));
            var numbers = new double[(int)count.ToUInt32()];
            Array(index, numbers);
            return numbers;
        }

        /// <summary>Copies the elements of a reading that is an array of numbers. Returns their number.</summary>
        public int Array(int index, Span<double> into)
        {
            UIntPtr count;
            fixed (double* numbers = &MemoryMarshal.GetReference(into))
            {
                Native.Check(Native.tl_readings_array_f64(Number, Native.Size(index), numbers, Native.Size(into.Length), &count));
            }
            return (int)count.ToUInt32();
        }

        /// <summary>The value of a reading of type bytes or string.</summary>
        public byte[] Bytes(int index)
        {
            UIntPtr count;
            Native.Check(Native.tl_readings_bytes(Number, Native.Size(index), null, UIntPtr.Zero, &count));
            var value = new byte[(int)count.ToUInt32()];
            fixed (byte* bytes = value)
            {
                Native.Check(Native.tl_readings_bytes(Number, Native.Size(index), bytes, Native.Size(value), &count));
            }
            return value;
        }

        /// <summary>Why a reading has no value; empty if it has one.</summary>
        public string Message(int index)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_readings_message(Number, Native.Size(index), buffer, capacity, length));
        }

        /// <summary>The event after the readings; its kind is None if there is none.</summary>
        public Event Event
        {
            get
            {
                Event occurred;
                Native.Check(Native.tl_readings_event(Number, &occurred, null, UIntPtr.Zero, null));
                return occurred;
            }
        }

        /// <summary>The sentence of the event, or the name of the variable that appeared or is gone.</summary>
        public string EventText
        {
            get
            {
                return Native.Text((buffer, capacity, length) =>
                {
                    Event occurred;
                    return Native.tl_readings_event(Number, &occurred, buffer, capacity, length);
                });
            }
        }
    }

    /// <summary>A subscription with a queue.</summary>
    public sealed unsafe class Subscription : Handle
    {
        internal Subscription(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_subscription_close(handle);
        }

        /// <summary>Waits for readings or an event. Returns false if nothing arrived in time.</summary>
        public bool Next(Readings into, int most, int timeoutMs)
        {
            return Native.CheckInTime(Native.tl_subscription_next(Number, into.Number, Native.Size(most), timeoutMs, null));
        }

        /// <summary>As Next, in the queue of this subscription.</summary>
        public Task<bool> NextAsync(Readings into, int most, int timeoutMs)
        {
            return Queue(() => Next(into, most, timeoutMs));
        }

        /// <summary>The newest value of an item that has arrived, without taking it; null before the first.</summary>
        public Reading? Value(uint item)
        {
            Reading reading;
            int hasReading;
            Native.Check(Native.tl_subscription_value(Number, item, &reading, &hasReading));
            return hasReading == 0 ? (Reading?)null : reading;
        }

        public string ItemName(uint item)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_subscription_item_name(Number, item, buffer, capacity, length));
        }
    }

    /// <summary>A connection to an engine. It reconnects automatically.</summary>
    public sealed unsafe class Client : Handle
    {
        internal Client(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_client_close(handle);
        }

        /// <summary>Connects to an engine: <c>tl://host[:port]</c>, or <c>tl:///</c> for this machine.</summary>
        public static Client Connect(string url, int timeoutMs)
        {
            var text = Native.Utf8(url);
            ulong number;
            int status;
            fixed (byte* bytes = text)
            {
                status = Native.tl_connect(bytes, Native.Size(text), timeoutMs, &number);
            }
            var client = new Client(number);
            try
            {
                Native.Check(status);
            }
            catch (TrunklineException)
            {
                client.Dispose();
                throw;
            }
            return client;
        }

        /// <summary>Opens variables in one round trip. Throws if one of them cannot be opened.</summary>
        public ulong[] Open(IEnumerable<string> names, int timeoutMs)
        {
            int[] statuses;
            return Open(names, timeoutMs, out statuses, true);
        }

        public ulong Open(string name, int timeoutMs)
        {
            return Open(new[] { name }, timeoutMs)[0];
        }

        /// <summary>Opens variables in one round trip. A variable that cannot be opened is 0, and its status says why.</summary>
        public ulong[] Open(IEnumerable<string> names, int timeoutMs, out int[] statuses)
        {
            return Open(names, timeoutMs, out statuses, false);
        }

        private ulong[] Open(IEnumerable<string> names, int timeoutMs, out int[] statuses, bool throws)
        {
            var list = new List<string>(names);
            var text = Native.Lines(list);
            var variables = new ulong[list.Count];
            statuses = new int[list.Count];
            fixed (byte* bytes = text)
            fixed (ulong* opened = variables)
            fixed (int* stored = statuses)
            {
                int status = Native.tl_open(Number, bytes, Native.Size(text), timeoutMs, opened, stored, Native.Size(list.Count), null);
                if (throws || Array.IndexOf(statuses, status) < 0)
                {
                    Native.Check(status);
                }
            }
            return variables;
        }

        /// <summary>Reads numbers. Throws if one of them cannot be read.</summary>
        public double[] Read(ReadOnlySpan<ulong> variables, int timeoutMs)
        {
            var values = new double[variables.Length];
            Read(variables, values, timeoutMs);
            return values;
        }

        /// <summary>Reads numbers into memory of the program.</summary>
        public void Read(ReadOnlySpan<ulong> variables, Span<double> into, int timeoutMs)
        {
            CheckLengths(variables.Length, into.Length);
            fixed (ulong* list = &MemoryMarshal.GetReference(variables))
            fixed (double* values = &MemoryMarshal.GetReference(into))
            {
                Native.Check(Native.tl_read_f64(Number, list, Native.Size(variables.Length), timeoutMs, values, null));
            }
        }

        public double[] Read(ulong[] variables, int timeoutMs)
        {
            return Read((ReadOnlySpan<ulong>)variables, timeoutMs);
        }

        public void Read(ulong[] variables, Readings into, int timeoutMs)
        {
            Read((ReadOnlySpan<ulong>)variables, into, timeoutMs);
        }

        public double Read(ulong variable, int timeoutMs)
        {
            double value;
            Native.Check(Native.tl_read_f64(Number, &variable, Native.Size(1), timeoutMs, &value, null));
            return value;
        }

        /// <summary>As Read, in the queue of this client.</summary>
        public Task<double> ReadAsync(ulong variable, int timeoutMs)
        {
            return Queue(() => Read(variable, timeoutMs));
        }

        /// <summary>Reads values of any type with their quality and times. Throws for the first that failed.</summary>
        public void Read(ReadOnlySpan<ulong> variables, Readings into, int timeoutMs)
        {
            fixed (ulong* list = &MemoryMarshal.GetReference(variables))
            {
                Native.Check(Native.tl_read(Number, list, Native.Size(variables.Length), timeoutMs, into.Number));
            }
        }

        /// <summary>Reads variables at one instant. Returns false if the readings are not from one instant.</summary>
        public bool Snapshot(ReadOnlySpan<ulong> variables, Readings into, int timeoutMs)
        {
            long instant;
            int isConsistent;
            fixed (ulong* list = &MemoryMarshal.GetReference(variables))
            {
                Native.Check(Native.tl_snapshot(Number, list, Native.Size(variables.Length), timeoutMs, into.Number, &instant, &isConsistent));
            }
            return isConsistent != 0;
        }

        /// <summary>Reads a value of any type as text.</summary>
        public string ReadText(ulong variable, int timeoutMs)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_read_text(Number, variable, timeoutMs, buffer, capacity, length));
        }

        /// <summary>Writes numbers, and waits for their outcomes. Throws if one was not carried out.</summary>
        public void Write(ReadOnlySpan<ulong> variables, ReadOnlySpan<double> values, int timeoutMs)
        {
            CheckLengths(variables.Length, values.Length);
            fixed (ulong* list = &MemoryMarshal.GetReference(variables))
            fixed (double* numbers = &MemoryMarshal.GetReference(values))
            {
                Native.Check(Native.tl_write_f64(Number, list, numbers, Native.Size(variables.Length), timeoutMs, null));
            }
        }

        public void Write(ulong[] variables, double[] values, int timeoutMs)
        {
            Write((ReadOnlySpan<ulong>)variables, (ReadOnlySpan<double>)values, timeoutMs);
        }

        private static void CheckLengths(int variables, int values)
        {
            if (values != variables)
            {
                throw new ArgumentException("there must be one value for each variable");
            }
        }

        public void Write(ulong variable, double value, int timeoutMs)
        {
            Native.Check(Native.tl_write_f64(Number, &variable, &value, Native.Size(1), timeoutMs, null));
        }

        /// <summary>As Write, in the queue of this client.</summary>
        public Task WriteAsync(ulong variable, double value, int timeoutMs)
        {
            return Queue(() =>
            {
                Write(variable, value, timeoutMs);
                return true;
            });
        }

        /// <summary>Writes a value of any type, given as text.</summary>
        public void WriteText(ulong variable, string value, int timeoutMs)
        {
            var text = Native.Utf8(value);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_write_text(Number, variable, bytes, Native.Size(text), timeoutMs));
            }
        }

        /// <summary>Waits for the outcomes of all writes, and returns their counts.</summary>
        public WriteCounts Flush(int timeoutMs)
        {
            WriteCounts counts;
            Native.Check(Native.tl_flush(Number, timeoutMs, &counts));
            return counts;
        }

        /// <summary>Takes or renews the lease of a variable; with a duration of 0, releases it.</summary>
        public void Lease(ulong variable, uint durationMs, int timeoutMs)
        {
            Native.Check(Native.tl_lease(Number, &variable, Native.Size(1), durationMs, timeoutMs, null));
        }

        /// <summary>The names of the variables that match a pattern, such as <c>boiler/**</c>.</summary>
        public string[] Find(string pattern, int timeoutMs)
        {
            var text = Native.Utf8(pattern);
            var found = Native.Text((buffer, capacity, length) =>
            {
                fixed (byte* bytes = text)
                {
                    return Native.tl_find(Number, bytes, Native.Size(text), UIntPtr.Zero, timeoutMs, buffer, capacity, length);
                }
            });
            return found == "" ? new string[0] : found.Split('\n');
        }

        /// <summary>Why a variable does not update, line by line from its name to this program.</summary>
        public string[] Why(string name, int timeoutMs)
        {
            var text = Native.Utf8(name);
            return Native.Text((buffer, capacity, length) =>
            {
                fixed (byte* bytes = text)
                {
                    return Native.tl_why(Number, bytes, Native.Size(text), timeoutMs, buffer, capacity, length);
                }
            }).Split('\n');
        }

        /// <summary>Subscribes to names under a contract, such as <c>last:1000</c>.</summary>
        public Subscription Subscribe(IEnumerable<string> names, string contract)
        {
            byte[] text = Native.Lines(names), terms = Native.Utf8(contract);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* contractBytes = terms)
            {
                Native.Check(Native.tl_subscribe(Number, bytes, Native.Size(text), contractBytes, Native.Size(terms), 0, &number));
            }
            return new Subscription(number);
        }

        /// <summary>Subscribes to all variables that match patterns, also to those that appear later.</summary>
        public Subscription SubscribePatterns(IEnumerable<string> patterns, IEnumerable<string> excluded, string contract)
        {
            byte[] text = Native.Lines(patterns), without = Native.Lines(excluded), terms = Native.Utf8(contract);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* withoutBytes = without)
            fixed (byte* contractBytes = terms)
            {
                Native.Check(Native.tl_subscribe_patterns(Number, bytes, Native.Size(text), withoutBytes, Native.Size(without), contractBytes, Native.Size(terms), 0, &number));
            }
            return new Subscription(number);
        }

        /// <summary>An empty list of writes: a batch, or a group.</summary>
        public Writes CreateWrites()
        {
            ulong number;
            Native.Check(Native.tl_writes_create(Number, &number));
            return new Writes(number);
        }

        /// <summary>Starts a query of history; the period and the interval are in nanoseconds.</summary>
        public History History(IEnumerable<string> patterns, long sinceNs, long untilNs, HistoryForm form, ulong intervalNs)
        {
            var text = Native.Lines(patterns);
            ulong number;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_history_open(Number, bytes, Native.Size(text), sinceNs, untilNs, (int)form, intervalNs, &number));
            }
            return new History(number);
        }

        /// <summary>Queries alarms. Empty texts select all; states are names, such as <c>unacknowledged</c>.</summary>
        public AlarmList Alarms(string pattern, string area, int priorityMin, IEnumerable<string> states, int timeoutMs)
        {
            byte[] text = Native.Utf8(pattern), areaText = Native.Utf8(area), stateText = Native.Lines(states);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* areaBytes = areaText)
            fixed (byte* stateBytes = stateText)
            {
                Native.Check(Native.tl_alarms(Number, bytes, Native.Size(text), areaBytes, Native.Size(areaText), priorityMin, stateBytes, Native.Size(stateText), timeoutMs, &number));
            }
            return new AlarmList(number);
        }

        /// <summary>Applies an action to alarms, such as <c>boiler/level#hi</c>. Throws if one of them refuses it.</summary>
        public void ActOnAlarms(IEnumerable<string> alarms, AlarmAction action, uint shelveMs, string comment, int timeoutMs)
        {
            byte[] text = Native.Lines(alarms), commentText = Native.Utf8(comment);
            fixed (byte* bytes = text)
            fixed (byte* commentBytes = commentText)
            {
                Native.Check(Native.tl_act_on_alarms(Number, bytes, Native.Size(text), (int)action, shelveMs, commentBytes, Native.Size(commentText), timeoutMs, null, null, UIntPtr.Zero));
            }
        }

        /// <summary>Follows the changes of alarms from a time on: Time.SinceNow, Time.Open or nanoseconds.</summary>
        public AlarmChanges FollowAlarms(string pattern, string area, int priorityMin, long sinceNs, int timeoutMs)
        {
            byte[] text = Native.Utf8(pattern), areaText = Native.Utf8(area);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* areaBytes = areaText)
            {
                Native.Check(Native.tl_follow_alarms(Number, bytes, Native.Size(text), areaBytes, Native.Size(areaText), priorityMin, sinceNs, timeoutMs, &number));
            }
            return new AlarmChanges(number);
        }

        /// <summary>Starts a query of the audit trail. Empty texts select all.</summary>
        public AuditQuery Audit(string pattern, string who, long sinceNs, bool newestFirst)
        {
            byte[] text = Native.Utf8(pattern), whoText = Native.Utf8(who);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* whoBytes = whoText)
            {
                Native.Check(Native.tl_audit(Number, bytes, Native.Size(text), whoBytes, Native.Size(whoText), sinceNs, newestFirst ? 1 : 0, &number));
            }
            return new AuditQuery(number);
        }

        /// <summary>Takes control of a folder; with a duration of 0, until it is released.</summary>
        public Control TakeControl(string folder, ControlLevel level, ControlHolder holder, uint durationMs, int timeoutMs)
        {
            var text = Native.Utf8(folder);
            Control control;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_take_control(Number, bytes, Native.Size(text), (int)level, (int)holder, durationMs, timeoutMs, &control));
            }
            return control;
        }

        /// <summary>Asks for control of a folder, and waits in the engine's queue if another client has it.</summary>
        public Control RequestControl(string folder, ControlLevel level, ControlHolder holder, uint durationMs, int timeoutMs)
        {
            var text = Native.Utf8(folder);
            Control control;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_request_control(Number, bytes, Native.Size(text), (int)level, (int)holder, durationMs, timeoutMs, &control));
            }
            return control;
        }

        /// <summary>Hands control of a folder over to the client with this request.</summary>
        public Control GiveControl(string folder, ulong request, int timeoutMs)
        {
            var text = Native.Utf8(folder);
            Control control;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_give_control(Number, bytes, Native.Size(text), request, timeoutMs, &control));
            }
            return control;
        }

        /// <summary>Releases control of a folder, or withdraws the request for it.</summary>
        public void ReleaseControl(string folder, int timeoutMs)
        {
            var text = Native.Utf8(folder);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_release_control(Number, bytes, Native.Size(text), timeoutMs));
            }
        }

        /// <summary>Lists who controls folders and who waits; an empty folder is all of them.</summary>
        public ControlList Controls(string folder, bool own, int timeoutMs)
        {
            var text = Native.Utf8(folder);
            ulong revision, number;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_controls(Number, bytes, Native.Size(text), own ? 1 : 0, timeoutMs, &revision, &number));
            }
            return new ControlList(number, revision);
        }

        /// <summary>Waits for a change in what this client controls and waits for. Returns false after a timeout.</summary>
        public bool FollowControl(ref ulong revision, int timeoutMs)
        {
            ulong changed;
            if (!Native.CheckInTime(Native.tl_follow_control(Number, revision, timeoutMs, &changed)))
            {
                return false;
            }
            revision = changed;
            return true;
        }

        /// <summary>Starts to record variables into a TDMS file.</summary>
        public Recorder Record(IEnumerable<string> patterns, string path, string contract, int timeoutMs)
        {
            byte[] text = Native.Lines(patterns), file = Native.Utf8(path), terms = Native.Utf8(contract);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* fileBytes = file)
            fixed (byte* contractBytes = terms)
            {
                Native.Check(Native.tl_recorder_start(Number, bytes, Native.Size(text), fileBytes, Native.Size(file), contractBytes, Native.Size(terms), timeoutMs, &number));
            }
            return new Recorder(number);
        }

        /// <summary>Plays a recording into its variables. A speed of 0 is as fast as possible.</summary>
        public Played Play(string path, double speed, bool keepTimestamps)
        {
            var file = Native.Utf8(path);
            Played played;
            fixed (byte* bytes = file)
            {
                Native.Check(Native.tl_play(Number, bytes, Native.Size(file), speed, keepTimestamps ? 1 : 0, &played));
            }
            return played;
        }
    }

    /// <summary>A list of writes that are sent together.</summary>
    public sealed unsafe class Writes : Handle
    {
        internal Writes(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_writes_close(handle);
        }

        public Writes Clear()
        {
            Native.Check(Native.tl_writes_clear(Number));
            return this;
        }

        public Writes Add(ulong variable, double value)
        {
            Native.Check(Native.tl_writes_add_f64(Number, variable, value));
            return this;
        }

        public Writes Add(ulong variable, long value)
        {
            Native.Check(Native.tl_writes_add_i64(Number, variable, value));
            return this;
        }

        /// <summary>Appends a write of a value of any type, given as text.</summary>
        public Writes Add(ulong variable, string value)
        {
            var text = Native.Utf8(value);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_writes_add_text(Number, variable, bytes, Native.Size(text)));
            }
            return this;
        }

        /// <summary>Appends a write of an array of numbers.</summary>
        public Writes Add(ulong variable, ReadOnlySpan<double> values)
        {
            fixed (double* numbers = &MemoryMarshal.GetReference(values))
            {
                Native.Check(Native.tl_writes_add_array_f64(Number, variable, numbers, Native.Size(values.Length)));
            }
            return this;
        }

        public Writes Add(ulong variable, double[] values)
        {
            return Add(variable, (ReadOnlySpan<double>)values);
        }

        /// <summary>Appends a write of bytes.</summary>
        public Writes Add(ulong variable, ReadOnlySpan<byte> value)
        {
            fixed (byte* bytes = &MemoryMarshal.GetReference(value))
            {
                Native.Check(Native.tl_writes_add_bytes(Number, variable, bytes, Native.Size(value.Length)));
            }
            return this;
        }

        /// <summary>Appends a write without a value: Send, Request or Unforce.</summary>
        public Writes AddOrder(ulong variable, Verb verb)
        {
            Native.Check(Native.tl_writes_add_order(Number, variable, (int)verb));
            return this;
        }

        /// <summary>Sets the verb of the last write: Put, Set or Force.</summary>
        public Writes As(Verb verb)
        {
            Native.Check(Native.tl_writes_set_verb(Number, (int)verb));
            return this;
        }

        /// <summary>Makes the last write conditional on the position that a reading or an outcome has stated.</summary>
        public Writes Expect(ulong epoch, ulong sequence)
        {
            Native.Check(Native.tl_writes_expect(Number, epoch, sequence));
            return this;
        }

        /// <summary>Sets the timestamp and the quality of the last write.</summary>
        public Writes Stamp(long sourceTimestampNs, uint quality)
        {
            Native.Check(Native.tl_writes_stamp(Number, sourceTimestampNs, quality));
            return this;
        }

        /// <summary>Sends all writes in one round trip. Throws if one was not carried out.</summary>
        public void Send(int timeoutMs)
        {
            Native.Check(Native.tl_write_batch(Number, timeoutMs, null, UIntPtr.Zero));
        }

        /// <summary>As Send, in the queue of this list.</summary>
        public Task SendAsync(int timeoutMs)
        {
            return Queue(() =>
            {
                Send(timeoutMs);
                return true;
            });
        }

        /// <summary>Writes all or nothing. Returns the commit number.</summary>
        public ulong SendAsGroup(int timeoutMs)
        {
            ulong commit;
            Native.Check(Native.tl_write_group(Number, timeoutMs, &commit));
            return commit;
        }

        /// <summary>Queues all writes and returns at once; Flush of the client waits for them.</summary>
        public void SendUntracked(uint lifeMs)
        {
            Native.Check(Native.tl_write_untracked(Number, lifeMs));
        }

        /// <summary>The outcome of a write of the last sending.</summary>
        public Outcome Outcome(int index)
        {
            Outcome outcome;
            Native.Check(Native.tl_writes_outcome(Number, Native.Size(index), &outcome, null, UIntPtr.Zero, null));
            return outcome;
        }
    }

    /// <summary>A query of history that delivers its rows or buckets page by page.</summary>
    public sealed unsafe class History : Handle
    {
        internal History(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_history_close(handle);
        }

        /// <summary>Takes the next rows. Returns false at the end.</summary>
        public bool Next(Readings into, int rowsMax, int timeoutMs)
        {
            UIntPtr count;
            Native.Check(Native.tl_history_next(Number, into.Number, (uint)rowsMax, timeoutMs, &count));
            return count != UIntPtr.Zero;
        }

        /// <summary>Takes the next buckets. Returns their number; 0 at the end.</summary>
        public int Next(Span<Bucket> into, int timeoutMs)
        {
            UIntPtr count;
            fixed (Bucket* buckets = &MemoryMarshal.GetReference(into))
            {
                Native.Check(Native.tl_history_next_buckets(Number, buckets, Native.Size(into.Length), timeoutMs, &count));
            }
            return (int)count.ToUInt32();
        }

        public int Next(Bucket[] into, int timeoutMs)
        {
            return Next((Span<Bucket>)into, timeoutMs);
        }

        public string ItemName(uint item)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_history_item_name(Number, item, buffer, capacity, length));
        }
    }

    /// <summary>The alarms that a query has found.</summary>
    public sealed unsafe class AlarmList : Handle
    {
        internal AlarmList(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_alarms_close(handle);
        }

        public int Count
        {
            get
            {
                UIntPtr count;
                Native.Check(Native.tl_alarms_count(Number, &count));
                return (int)count.ToUInt32();
            }
        }

        public Alarm this[int index]
        {
            get
            {
                Alarm alarm;
                Native.Check(Native.tl_alarms_get(Number, Native.Size(index), &alarm));
                return alarm;
            }
        }

        public string Text(int index, AlarmText field)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_alarms_text(Number, Native.Size(index), (int)field, buffer, capacity, length));
        }
    }

    /// <summary>Changes of alarms, as they happen.</summary>
    public sealed unsafe class AlarmChanges : Handle
    {
        internal AlarmChanges(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_alarm_changes_close(handle);
        }

        /// <summary>Waits for the next change. Returns false if there was none in time.</summary>
        public bool Next(out Alarm alarm, out ulong lost, int timeoutMs)
        {
            Alarm changed = new Alarm();
            ulong missing = 0;
            var arrived = Native.CheckInTime(Native.tl_alarm_changes_next(Number, timeoutMs, &changed, &missing));
            alarm = changed;
            lost = missing;
            return arrived;
        }

        /// <summary>As Next, in the queue of this object; null if there was no change in time.</summary>
        public Task<Alarm?> NextAsync(int timeoutMs)
        {
            return Queue(() =>
            {
                Alarm alarm;
                ulong lost;
                return Next(out alarm, out lost, timeoutMs) ? alarm : (Alarm?)null;
            });
        }

        /// <summary>A text of the change that Next has returned last.</summary>
        public string Text(AlarmText field)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_alarm_changes_text(Number, (int)field, buffer, capacity, length));
        }
    }

    /// <summary>A query of the audit trail, entry by entry.</summary>
    public sealed unsafe class AuditQuery : Handle
    {
        internal AuditQuery(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_audit_close(handle);
        }

        /// <summary>Returns the next entry; null at the end.</summary>
        public AuditEntry? Next(int timeoutMs)
        {
            AuditEntry entry;
            int hasEntry;
            Native.Check(Native.tl_audit_next(Number, timeoutMs, &entry, &hasEntry));
            return hasEntry == 0 ? (AuditEntry?)null : entry;
        }

        /// <summary>A text of the entry that Next has returned last.</summary>
        public string Text(AuditText field)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_audit_text(Number, (int)field, buffer, capacity, length));
        }
    }

    /// <summary>Who controls folders, and who waits for control.</summary>
    public sealed unsafe class ControlList : Handle
    {
        internal ControlList(ulong number, ulong revision) : base(number)
        {
            Revision = revision;
        }

        internal override void Close(ulong handle)
        {
            Native.tl_controls_close(handle);
        }

        /// <summary>The revision for FollowControl of the client.</summary>
        public ulong Revision { get; }

        public int Count
        {
            get
            {
                UIntPtr count;
                Native.Check(Native.tl_controls_count(Number, &count));
                return (int)count.ToUInt32();
            }
        }

        public Control this[int index]
        {
            get
            {
                Control control;
                Native.Check(Native.tl_controls_get(Number, Native.Size(index), &control));
                return control;
            }
        }

        public string Folder(int index)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_controls_folder(Number, Native.Size(index), buffer, capacity, length));
        }

        /// <summary>Who has control or waits for it.</summary>
        public string By(int index)
        {
            return Native.Text((buffer, capacity, length) =>
                Native.tl_controls_by(Number, Native.Size(index), buffer, capacity, length));
        }
    }

    /// <summary>A recording of variables.</summary>
    public sealed unsafe class Recorder : Handle
    {
        private bool isStopped;

        internal Recorder(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            if (!isStopped)
            {
                RecorderStatus status;
                Native.tl_recorder_stop(handle, &status);
            }
        }

        public RecorderStatus Progress
        {
            get
            {
                RecorderStatus status;
                Native.Check(Native.tl_recorder_progress(Number, &status));
                return status;
            }
        }

        /// <summary>Writes what has arrived, and closes the file.</summary>
        public RecorderStatus Stop()
        {
            RecorderStatus status;
            Native.Check(Native.tl_recorder_stop(Number, &status));
            isStopped = true;
            return status;
        }
    }

    /// <summary>An engine in this process.</summary>
    public sealed unsafe class Engine : Handle
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
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_engine_start(bytes, Native.Size(text), &number));
            }
            return new Engine(number);
        }

        public string Url
        {
            get
            {
                return Native.Text((buffer, capacity, length) => Native.tl_engine_url(Number, buffer, capacity, length));
            }
        }

        /// <summary>Deploys a library, given in the notation of configuration files.</summary>
        public void Deploy(string library)
        {
            var text = Native.Utf8(library);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_engine_deploy(Number, bytes, Native.Size(text)));
            }
        }

        /// <summary>A client that is connected through memory.</summary>
        public Client Client()
        {
            ulong number;
            Native.Check(Native.tl_engine_client(Number, &number));
            return new Client(number);
        }

        /// <summary>A numeric variable, read and written without a connection.</summary>
        public HostVariable Variable(string name)
        {
            var text = Native.Utf8(name);
            ulong number;
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_engine_variable(Number, bytes, Native.Size(text), &number));
            }
            return new HostVariable(number);
        }
    }

    /// <summary>A numeric variable of an engine in this process.</summary>
    public sealed unsafe class HostVariable : Handle
    {
        internal HostVariable(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_host_close(handle);
        }

        public double Value
        {
            get
            {
                double value;
                Native.Check(Native.tl_host_read_f64(Number, &value, null, null, null));
                return value;
            }
            set { Native.Check(Native.tl_host_write_f64(Number, value, null)); }
        }
    }

    /// <summary>Options of the ends of streams.</summary>
    public sealed unsafe class StreamOptions : Handle
    {
        private static ulong Create()
        {
            ulong options;
            Native.Check(Native.tl_stream_options_create(&options));
            return options;
        }

        public StreamOptions() : base(Create()) { }

        internal override void Close(ulong handle)
        {
            Native.tl_stream_options_close(handle);
        }

        /// <summary>Capacity of the buffer in elements.</summary>
        public int Capacity { set { Native.Check(Native.tl_stream_options_set_capacity(Number, Native.Size(value))); } }

        /// <summary>Port of the engine of this machine.</summary>
        public ushort EnginePort { set { Native.Check(Native.tl_stream_options_set_engine_port(Number, value)); } }

        /// <summary>Longest time in milliseconds that a peer may be away.</summary>
        public int GoneAfterMs { set { Native.Check(Native.tl_stream_options_set_gone_after(Number, value)); } }

        /// <summary>Permits connections with other machines that are not encrypted.</summary>
        public bool IsInsecure { set { Native.Check(Native.tl_stream_options_set_insecure(Number, value ? 1 : 0)); } }

        /// <summary>Gives the end a journal: a folder, a limit in bytes (0 is 1 GiB), and what it survives.</summary>
        public void SetJournal(string folder, ulong bytesMax, bool onDisk, bool commitByProgram)
        {
            var text = Native.Utf8(folder);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_stream_options_set_journal(Number, bytes, Native.Size(text), bytesMax, onDisk ? 1 : 0, commitByProgram ? 1 : 0));
            }
        }
    }

    /// <summary>The element types of streams: the numeric types of C#.</summary>
    internal static class Elements<T> where T : struct
    {
        internal static readonly byte[] TypeName = Native.Utf8(Name());
        internal static readonly UIntPtr Bytes = Native.Size(Marshal.SizeOf(typeof(T)));

        private static string Name()
        {
            switch (Type.GetTypeCode(typeof(T)))
            {
                case TypeCode.SByte: return "i8";
                case TypeCode.Int16: return "i16";
                case TypeCode.Int32: return "i32";
                case TypeCode.Int64: return "i64";
                case TypeCode.Byte: return "u8";
                case TypeCode.UInt16: return "u16";
                case TypeCode.UInt32: return "u32";
                case TypeCode.UInt64: return "u64";
                case TypeCode.Single: return "f32";
                case TypeCode.Double: return "f64";
                default: throw new NotSupportedException("streams carry the numeric types of C#, not " + typeof(T));
            }
        }
    }

    /// <summary>The writer of a stream of numbers.</summary>
    public sealed unsafe class StreamWriter<T> : Handle where T : struct
    {
        private StreamWriter(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_stream_writer_close(handle, 10000, null);
        }

        /// <summary>Creates a writer, and waits for its reader. An empty peer lets the reader name this end.</summary>
        public static StreamWriter<T> Create(string url, string peer, StreamOptions options, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Elements<T>.TypeName, other = Native.Utf8(peer);
            ulong number;
            fixed (byte* nameBytes = name)
            fixed (byte* typeBytes = type)
            fixed (byte* otherBytes = other)
            {
                Native.Check(Native.tl_stream_writer_create_with(nameBytes, Native.Size(name), typeBytes, Native.Size(type), otherBytes, Native.Size(other), options == null ? 0 : options.Number, timeoutMs, &number));
            }
            return new StreamWriter<T>(number);
        }

        /// <summary>Creates a writer with several readers, and waits for the first ones. With a quota, a slow reader
        /// loses elements; without one, the writer waits for it.</summary>
        public static StreamWriter<T> CreateFanOut(string url, int readersMin, ulong? quota, StreamOptions options, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Elements<T>.TypeName;
            ulong number;
            fixed (byte* nameBytes = name)
            fixed (byte* typeBytes = type)
            {
                Native.Check(Native.tl_stream_fan_out_create(nameBytes, Native.Size(name), typeBytes, Native.Size(type), options == null ? 0 : options.Number, Native.Size(readersMin), UIntPtr.Zero, quota ?? ulong.MaxValue, timeoutMs, &number));
            }
            return new StreamWriter<T>(number);
        }

        /// <summary>Writes all elements or none.</summary>
        public void Write(ReadOnlySpan<T> elements, int timeoutMs)
        {
            var bytes = MemoryMarshal.AsBytes(elements);
            fixed (byte* first = &MemoryMarshal.GetReference(bytes))
            {
                Native.Check(Native.tl_stream_write(Number, first, Elements<T>.Bytes, Native.Size(elements.Length), timeoutMs));
            }
        }

        public void Write(T[] elements, int timeoutMs)
        {
            Write((ReadOnlySpan<T>)elements, timeoutMs);
        }

        /// <summary>As Write, in the queue of this writer.</summary>
        public Task WriteAsync(T[] elements, int timeoutMs)
        {
            return Queue(() =>
            {
                Write(elements, timeoutMs);
                return true;
            });
        }

        /// <summary>Lends room in the memory from which elements are sent, until Commit. Until then, no other method
        /// uses or closes the writer.</summary>
        public Span<T> Reserve(int count, int timeoutMs)
        {
            void* room;
            Native.Check(Native.tl_stream_reserve(Number, Elements<T>.Bytes, Native.Size(count), timeoutMs, &room));
            return new Span<T>(room, count);
        }

        /// <summary>Writes the first elements of the room that Reserve has lent; 0 writes nothing.</summary>
        public void Commit(int count, int timeoutMs)
        {
            Native.Check(Native.tl_stream_commit(Number, Native.Size(count), timeoutMs));
        }

        /// <summary>Waits until all elements have reached a stage. Returns false after the timeout.</summary>
        public bool Flush(Stage until, int timeoutMs)
        {
            return Native.CheckInTime(Native.tl_stream_flush(Number, (int)until, timeoutMs));
        }

        /// <summary>Ends the stream. Returns the number of elements that the reader has not received.</summary>
        public ulong End(int timeoutMs)
        {
            ulong undelivered;
            Native.Check(Native.tl_stream_writer_close(Number, timeoutMs, &undelivered));
            return undelivered;
        }

        /// <summary>Ends the stream at once; the reader learns the reason.</summary>
        public void Abort(string reason)
        {
            var text = Native.Utf8(reason);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_stream_writer_abort(Number, bytes, Native.Size(text)));
            }
        }

        /// <summary>Leaves the stream to the next writer with this name and journal.</summary>
        public void Suspend()
        {
            Native.Check(Native.tl_stream_writer_suspend(Number));
        }

        public StreamProperties Properties
        {
            get
            {
                StreamProperties properties;
                Native.Check(Native.tl_stream_writer_properties(Number, &properties));
                return properties;
            }
        }

        /// <summary>The readers of a writer with several readers.</summary>
        public StreamPeer[] Readers()
        {
            UIntPtr count;
            Native.Check(Native.tl_stream_writer_readers(Number, null, UIntPtr.Zero, &count));
            // A reader may join between the two calls.
            var peers = new StreamPeer[(int)count.ToUInt32() + 8];
            fixed (StreamPeer* first = peers)
            {
                Native.Check(Native.tl_stream_writer_readers(Number, first, Native.Size(peers.Length), &count));
            }
            Array.Resize(ref peers, (int)count.ToUInt32());
            return peers;
        }
    }

    /// <summary>The reader of a stream of numbers.</summary>
    public sealed unsafe class StreamReader<T> : Handle where T : struct
    {
        private StreamReader(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_stream_reader_close(handle);
        }

        /// <summary>Creates a reader, and waits for its writer. An empty peer lets the writer name this end.</summary>
        public static StreamReader<T> Create(string url, string peer, StreamOptions options, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Elements<T>.TypeName, other = Native.Utf8(peer);
            ulong number;
            fixed (byte* nameBytes = name)
            fixed (byte* typeBytes = type)
            fixed (byte* otherBytes = other)
            {
                Native.Check(Native.tl_stream_reader_create_with(nameBytes, Native.Size(name), typeBytes, Native.Size(type), otherBytes, Native.Size(other), options == null ? 0 : options.Number, timeoutMs, &number));
            }
            return new StreamReader<T>(number);
        }

        /// <summary>Creates a reader with several writers, and waits for the first ones. Read it with ReadRun.</summary>
        public static StreamReader<T> CreateFanIn(string url, int writersMin, StreamOptions options, int timeoutMs)
        {
            byte[] name = Native.Utf8(url), type = Elements<T>.TypeName;
            ulong number;
            fixed (byte* nameBytes = name)
            fixed (byte* typeBytes = type)
            {
                Native.Check(Native.tl_stream_fan_in_create(nameBytes, Native.Size(name), typeBytes, Native.Size(type), options == null ? 0 : options.Number, Native.Size(writersMin), UIntPtr.Zero, timeoutMs, &number));
            }
            return new StreamReader<T>(number);
        }

        /// <summary>Waits for at least one element, and reads all that are there. Returns 0 at the end of the stream.</summary>
        public int Read(Span<T> into, int timeoutMs)
        {
            UIntPtr count;
            int status = TryRead(into, 1, timeoutMs, &count);
            if (status != Native.StreamEnded)
            {
                Native.Check(status);
            }
            return (int)count.ToUInt32();
        }

        public int Read(T[] into, int timeoutMs)
        {
            return Read((Span<T>)into, timeoutMs);
        }

        /// <summary>Waits for at least <c>minimum</c> elements. Throws at the end of the stream.</summary>
        public int Read(Span<T> into, int minimum, int timeoutMs)
        {
            UIntPtr count;
            Native.Check(TryRead(into, minimum, timeoutMs, &count));
            return (int)count.ToUInt32();
        }

        private int TryRead(Span<T> into, int minimum, int timeoutMs, UIntPtr* count)
        {
            var bytes = MemoryMarshal.AsBytes(into);
            fixed (byte* first = &MemoryMarshal.GetReference(bytes))
            {
                return Native.tl_stream_read(Number, first, Elements<T>.Bytes, Native.Size(minimum), Native.Size(into.Length), timeoutMs, count);
            }
        }

        /// <summary>As Read, in the queue of this reader.</summary>
        public Task<int> ReadAsync(T[] into, int timeoutMs)
        {
            return Queue(() => Read(into, timeoutMs));
        }

        /// <summary>Lends elements in the memory of the reader, until Release. Until then, no other method uses or
        /// closes the reader.</summary>
        public ReadOnlySpan<T> Acquire(int minimum, int maximum, int timeoutMs)
        {
            void* elements;
            UIntPtr count;
            Native.Check(Native.tl_stream_acquire(Number, Elements<T>.Bytes, Native.Size(minimum), Native.Size(maximum), timeoutMs, &elements, &count));
            return new ReadOnlySpan<T>(elements, (int)count.ToUInt32());
        }

        /// <summary>Declares the elements that Acquire has lent as read.</summary>
        public void Release()
        {
            Native.Check(Native.tl_stream_release(Number));
        }

        /// <summary>Declares that the program has processed all that it has read, for a journal.</summary>
        public void Commit()
        {
            Native.Check(Native.tl_stream_reader_commit(Number));
        }

        /// <summary>Waits for elements of any writer, or for the end of one. Returns false after the timeout.</summary>
        public bool ReadRun(Span<T> into, out StreamRun run, int timeoutMs)
        {
            var bytes = MemoryMarshal.AsBytes(into);
            var read = new StreamRun();
            bool arrived;
            fixed (byte* first = &MemoryMarshal.GetReference(bytes))
            {
                arrived = Native.CheckInTime(Native.tl_stream_read_run(Number, first, Elements<T>.Bytes, Native.Size(into.Length), timeoutMs, &read));
            }
            run = read;
            return arrived;
        }

        /// <summary>The URL of the writer of the last run.</summary>
        public string RunUrl
        {
            get { return Native.Text((buffer, capacity, length) => Native.tl_stream_run_url(Number, buffer, capacity, length)); }
        }

        /// <summary>Why the last run ended with Aborted or Fault.</summary>
        public string RunReason
        {
            get { return Native.Text((buffer, capacity, length) => Native.tl_stream_run_reason(Number, buffer, capacity, length)); }
        }

        public StreamProperties Properties
        {
            get
            {
                StreamProperties properties;
                Native.Check(Native.tl_stream_reader_properties(Number, &properties));
                return properties;
            }
        }

        /// <summary>Ends the stream, also with a journal, and empties the journal.</summary>
        public void Destroy()
        {
            Native.Check(Native.tl_stream_reader_destroy(Number));
        }
    }

    /// <summary>An I/O server: this program is the source of variables.</summary>
    public sealed unsafe class Provider : Handle
    {
        private Provider(ulong number) : base(number) { }

        internal override void Close(ulong handle)
        {
            Native.tl_provider_close(handle);
        }

        /// <summary>Starts to provide the items of the I/O server with this name, and connects in the background.</summary>
        public static Provider Start(string url, string name, IEnumerable<string> items, uint orderTimeoutMs)
        {
            byte[] text = Native.Utf8(url), nameText = Native.Utf8(name), itemText = Native.Lines(items);
            ulong number;
            fixed (byte* bytes = text)
            fixed (byte* nameBytes = nameText)
            fixed (byte* itemBytes = itemText)
            {
                Native.Check(Native.tl_provider_start(bytes, Native.Size(text), nameBytes, Native.Size(nameText), itemBytes, Native.Size(itemText), orderTimeoutMs, 0, &number));
            }
            return new Provider(number);
        }

        public ProviderStatus Status
        {
            get
            {
                ProviderStatus status;
                Native.Check(Native.tl_provider_state(Number, &status, null, UIntPtr.Zero, null));
                return status;
            }
        }

        /// <summary>Publishes new values of items, stamped now.</summary>
        public void Publish(ReadOnlySpan<uint> items, ReadOnlySpan<double> values)
        {
            if (items.Length != values.Length)
            {
                throw new ArgumentException("there must be one value for each item");
            }
            fixed (uint* list = &MemoryMarshal.GetReference(items))
            fixed (double* numbers = &MemoryMarshal.GetReference(values))
            {
                Native.Check(Native.tl_provider_publish_f64(Number, list, numbers, Native.Size(items.Length), Time.Open));
            }
        }

        public void Publish(uint[] items, double[] values)
        {
            Publish((ReadOnlySpan<uint>)items, (ReadOnlySpan<double>)values);
        }

        /// <summary>Waits for the next order of a client. Returns false if there was none in time.</summary>
        public bool Next(out Order order, int timeoutMs)
        {
            var next = new Order();
            var arrived = Native.CheckInTime(Native.tl_provider_next(Number, timeoutMs, &next, null, UIntPtr.Zero, null));
            order = next;
            return arrived;
        }

        /// <summary>Carries out an order: the variable has this value now.</summary>
        public void Accept(Order order, double value)
        {
            Native.Check(Native.tl_provider_accept(Number, order.Number, order.DataType, value));
        }

        /// <summary>Refuses an order; the client gets the reason.</summary>
        public void Refuse(Order order, string reason)
        {
            var text = Native.Utf8(reason);
            fixed (byte* bytes = text)
            {
                Native.Check(Native.tl_provider_refuse(Number, order.Number, bytes, Native.Size(text)));
            }
        }
    }
}
