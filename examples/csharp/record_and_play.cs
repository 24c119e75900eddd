// Records variables into a TDMS file, and plays the file back into them.
//
//     mono record_and_play.exe [URL [FILE]]

using System;
using Trunkline;

static class RecordAndPlay
{
    static int Main(string[] arguments)
    {
        var url = arguments.Length > 0 ? arguments[0] : "tl:///";
        var path = arguments.Length > 1 ? arguments[1] : "run1.tdms";
        try
        {
            using (var client = Client.Connect(url, 5000))
            {
                var setpoint = client.Open("boiler/setpoint", 2000);
                using (var recorder = client.Record(new[] { "boiler/**" }, path, "all", 5000))
                {
                    // From here on, no update is missed.
                    for (var number = 0; number < 100; number++)
                    {
                        client.Write(setpoint, number / 2.0, 2000);
                    }
                    var recorded = recorder.Stop();
                    Console.WriteLine("recorded {0} updates of {1} variables, {2} lost", recorded.Updates, recorded.Variables, recorded.Lost);
                }
                var played = client.Play(path, 0, false);
                Console.WriteLine("played {0} updates, {1} failed", played.Updates, played.Failed);
            }
            return 0;
        }
        catch (TrunklineException error)
        {
            Console.Error.WriteLine("{0}: {1}", error.Name, error.Message);
            return 1;
        }
    }
}
