// Aeron IPC: exclusive publications, claimed and filled in place; subscriptions polled, both ends
// without sleep. The media driver is a process of its own on any CPU, with its default idle strategy.
// A call of more elements than a fragment holds is as many claims as it needs: a reader gets elements
// in order, not messages. W3, W4 and V9 as the bench itself does them: the same loops and checks.
//
//   AeronPeer cell stream_throughput|stream_latency|same_host aeron [key=value ...]      prints a row
//   AeronPeer role driver|take|echo [key=value ...]    started by a cell
import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FragmentHandler;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.agrona.MutableDirectBuffer;

public final class AeronPeer {
    private static final String CHANNEL = "aeron:ipc?term-length=16m|mtu=65504";
    private static final int THERE = 10;
    private static final int BACK = 11;
    /** Elements of a fragment: what the header leaves of 65504 bytes. */
    private static final int CLAIM = (65_504 - 32) / 8;
    private static final int FRAGMENTS = 256;
    /** Elements between two looks at the clock. */
    private static final int CLOCK_INTERVAL = 10_000;
    /** Until the compiler is done; comes before the warm-up. */
    private static final long COMPILE_NS = 1_500_000_000L;
    private static final int WARM_UP = 50_000;

    private static final Map<String, String> settings = new HashMap<>();
    private static volatile long written;

    public static void main(String[] words) throws Exception {
        Locale.setDefault(Locale.ROOT);
        for (String word : words) {
            String[] pair = word.split("=", 2);
            if (pair.length == 2) settings.put(pair[0], pair[1]);
        }
        if (words[0].equals("role")) role(words[1]);
        else cell(words[1]);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static long setting(String name, long otherwise) {
        return Long.parseLong(settings.getOrDefault(name, Long.toString(otherwise)));
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    // ------------------------------------------------------------------ placement and processes

    /** Near and far end's CPU: the first two that the system allows, or the only one. */
    private static int[] cpus() throws IOException {
        List<Integer> allowed = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (!line.startsWith("Cpus_allowed_list:")) continue;
            for (String range : line.split(":")[1].trim().split(",")) {
                String[] ends = range.split("-");
                for (int cpu = Integer.parseInt(ends[0]); cpu <= Integer.parseInt(ends[ends.length - 1]); cpu++) allowed.add(cpu);
            }
        }
        return new int[] {allowed.get(0), allowed.get(Math.min(1, allowed.size() - 1))};
    }

    private static void pin(int cpu) throws Exception {
        String pid = Long.toString(ProcessHandle.current().pid());
        Process done = new ProcessBuilder("taskset", "-acp", Integer.toString(cpu), pid).redirectErrorStream(true).start();
        done.getInputStream().readAllBytes();
        if (done.waitFor() != 0) throw new IOException("taskset does not pin this process");
    }

    /** A role of this program, which ends with its input. */
    private static Process start(String role, Map<String, String> more) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElse("java")));
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), "AeronPeer", "role", role));
        Map<String, String> all = new TreeMap<>(settings);
        all.putAll(more);
        all.forEach((name, value) -> command.add(name + "=" + value));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static String expect(BufferedReader lines, String word) throws IOException {
        for (String line; (line = lines.readLine()) != null; ) {
            if (line.startsWith(word)) return line.substring(word.length()).trim();
        }
        throw new IOException("a role ended before it said " + word);
    }

    private static void end(Process role) throws Exception {
        role.getOutputStream().close();
        if (!role.waitFor(3, java.util.concurrent.TimeUnit.SECONDS)) role.destroyForcibly();
    }

    /** CPU nanoseconds of a process, to a hundredth of a second. */
    private static long cpuNs(Process process) throws IOException {
        String text = Files.readString(Path.of("/proc/" + process.pid() + "/stat"));
        String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * 10_000_000L;
    }

    // ------------------------------------------------------------------ the two ends

    private static Aeron connect() {
        return Aeron.connect(new Aeron.Context().aeronDirectoryName(settings.get("dir")));
    }

    private static Image image(Subscription subscription) {
        while (subscription.imageCount() == 0) Thread.yield();
        return subscription.imageAtIndex(0);
    }

    /** The next elements: their own numbers. */
    private static final class Counted implements FragmentHandler {
        long next;
        long wrong;

        public void onFragment(org.agrona.DirectBuffer buffer, int offset, int length, io.aeron.logbuffer.Header header) {
            long number = next;
            for (int at = offset; at < offset + length; at += 8) {
                if (buffer.getDouble(at) != (double) number) wrong++;
                number++;
            }
            next = number;
        }
    }

    private static void write(ExclusivePublication publication, int call) {
        BufferClaim claim = new BufferClaim();
        long next = 0, said = 0;
        while (true) {
            for (int left = call; left > 0; ) {
                int count = Math.min(left, CLAIM);
                claim(publication, claim, 8 * count);
                MutableDirectBuffer buffer = claim.buffer();
                int offset = claim.offset();
                for (int at = offset; at < offset + 8 * count; at += 8) buffer.putDouble(at, (double) next++);
                claim.commit();
                left -= count;
            }
            // A store that others see at once costs as much as an element.
            if (next - said >= CLOCK_INTERVAL) written = said = next;
        }
    }

    private static void claim(ExclusivePublication publication, BufferClaim claim, int length) {
        for (int tries = 0; publication.tryClaim(length, claim) < 0; tries++) {
            // The driver, which makes room, may need this CPU.
            if (tries < 1000) Thread.onSpinWait();
            else Thread.yield();
        }
    }

    private static void role(String name) throws Exception {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException ended) { }
            if (!name.equals("driver")) Runtime.getRuntime().halt(0);
        });
        if (name.equals("driver")) {
            MediaDriver.Context context = new MediaDriver.Context().aeronDirectoryName(settings.get("dir"))
                .threadingMode(ThreadingMode.SHARED).termBufferSparseFile(false)
                .dirDeleteOnStart(true).dirDeleteOnShutdown(true);
            try (MediaDriver driver = MediaDriver.launch(context)) {
                System.out.println("LISTENING");
                System.out.flush();
                watch.run();
            }
            return;
        }
        pin(cpus()[1]);
        watch.setDaemon(true);
        watch.start();
        try (Aeron aeron = connect()) {
            Subscription there = aeron.addSubscription(CHANNEL, THERE);
            ExclusivePublication back = aeron.addExclusivePublication(CHANNEL, BACK);
            Image image = image(there);
            if (name.equals("take")) take(image);
            else echo(image, back);
        }
    }

    private static void take(Image image) {
        Counted counted = new Counted();
        long begin = System.nanoTime() + COMPILE_NS + setting("warm_ms", 1000) * 1_000_000L;
        long length = setting("ms", 1000) * 1_000_000L;
        long since = 0, before = 0, cpu = 0;
        while (true) {
            for (long until = counted.next + CLOCK_INTERVAL; counted.next < until; ) {
                if (image.poll(counted, FRAGMENTS) == 0) Thread.onSpinWait();
            }
            long now = System.nanoTime();
            if (since == 0 && now >= begin) {
                since = now;
                before = counted.next;
                cpu = cpuNs();
            } else if (since != 0 && now - since >= length) {
                System.out.println("RESULT " + (counted.next - before) + " " + (now - since) + " " + (cpuNs() - cpu) + " " + counted.wrong);
                System.out.flush();
                return;
            }
        }
    }

    private static void echo(Image image, ExclusivePublication back) {
        BufferClaim claim = new BufferClaim();
        FragmentHandler handler = (buffer, offset, length, header) -> {
            claim(back, claim, 8);
            claim.buffer().putLong(claim.offset(), buffer.getLong(offset));
            claim.commit();
        };
        while (true) {
            if (image.poll(handler, 10) == 0) Thread.onSpinWait();
        }
    }

    // ------------------------------------------------------------------ cells

    private static void cell(String scenario) throws Exception {
        int[] cpus = cpus();
        Map<String, String> dir = Map.of("dir", "/dev/shm/trunkline-peer-aeron-" + ProcessHandle.current().pid());
        // The driver has every CPU, so it comes before this process has one.
        Process driver = start("driver", dir);
        BufferedReader said = new BufferedReader(new InputStreamReader(driver.getInputStream()));
        expect(said, "LISTENING");
        settings.putAll(dir);
        Process far = start(scenario.equals("stream_throughput") ? "take" : "echo", dir);
        pin(cpus[0]);
        String place = (cpus[0] == cpus[1] ? "same" : "cross") + " (the driver between them on any CPU)";
        BufferedReader lines = new BufferedReader(new InputStreamReader(far.getInputStream()));
        try (Aeron aeron = connect()) {
            ExclusivePublication there = aeron.addExclusivePublication(CHANNEL, THERE);
            Subscription back = aeron.addSubscription(CHANNEL, BACK);
            Image image = image(back);
            while (!there.isConnected()) Thread.yield();
            switch (scenario) {
                case "stream_throughput" -> throughput(there, lines, driver, place);
                case "stream_latency", "same_host" -> pings(scenario, there, image, place);
                default -> throw new IllegalArgumentException("Aeron is not measured in " + scenario);
            }
            System.out.flush();
            end(far);
            end(driver);
            // A writer may still be at work.
            Runtime.getRuntime().halt(0);
        }
    }

    private static void throughput(ExclusivePublication there, BufferedReader lines, Process driver, String place) throws Exception {
        int call = (int) setting("call", 1);
        Thread writer = new Thread(() -> write(there, call));
        writer.setDaemon(true);
        writer.start();
        Thread.sleep(COMPILE_NS / 1_000_000 + setting("warm_ms", 1000));
        long before = written, cpu = cpuNs(), served = cpuNs(driver);
        String[] result = expect(lines, "RESULT").split(" ");
        double elements = written - before;
        double writerNs = (cpuNs() - cpu) / elements, serverNs = (cpuNs(driver) - served) / elements;
        double counted = Double.parseDouble(result[0]), ns = Double.parseDouble(result[1]);
        double readerNs = Double.parseDouble(result[2]) / counted, rate = counted / ns * 1e9;
        Map<String, Double> figures = new TreeMap<>();
        figures.put("elements_per_s", rate);
        figures.put("mb_per_s", rate * 8e-6);
        figures.put("writer_ns_per_element", writerNs);
        figures.put("reader_ns_per_element", readerNs);
        figures.put("server_ns_per_element", serverNs);
        figures.put("cpu_s_per_gb", (writerNs + readerNs + serverNs) / 8);
        row("stream_throughput", "call=" + call, place, figures, result[3].equals("0") ? "" : result[3] + " elements were wrong");
    }

    private static void pings(String scenario, ExclusivePublication there, Image back, String place) {
        BufferClaim claim = new BufferClaim();
        long[] got = {0};
        FragmentHandler handler = (buffer, offset, length, header) -> got[0] = buffer.getLong(offset);
        long batch = scenario.equals("stream_latency") ? 1 : setting("batch", 100);
        long length = setting("ms", 0) * 1_000_000L, count = setting("count", Long.MAX_VALUE);
        List<Double> times = new ArrayList<>();
        long number = 0, wrong = 0, start = 0;
        while (times.size() < count && (start == 0 || length == 0 || System.nanoTime() - start < length)) {
            long before = System.nanoTime();
            for (long one = 0; one < batch; one++) {
                number++;
                claim(there, claim, 8);
                claim.buffer().putLong(claim.offset(), number);
                claim.commit();
                while (back.poll(handler, 1) == 0) Thread.onSpinWait();
                if (got[0] != number) wrong++;
            }
            long now = System.nanoTime();
            if (number <= WARM_UP) continue;
            if (start == 0) start = now;
            times.add((now - before) / 1e3 / batch);
        }
        double[] sorted = times.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        double mean = Arrays.stream(sorted).average().orElse(0);
        Map<String, Double> figures = new TreeMap<>();
        String error = wrong == 0 ? "" : wrong + " came back as something else";
        if (scenario.equals("stream_latency")) {
            figures.put("one_way_us", mean / 2);
            figures.put("median_us", rank(sorted, 0.5) / 2);
            figures.put("p99_us", rank(sorted, 0.99) / 2);
            figures.put("p999_us", sorted[Math.min(sorted.length * 999 / 1000, sorted.length - 1)] / 2);
            row("stream_latency", "waiting=spinning", place, figures, error);
            return;
        }
        figures.put("round_trips", (double) sorted.length * batch);
        figures.put("round_trip_us", rank(sorted, 0.5));
        figures.put("mean_us", mean);
        figures.put("p99_us", rank(sorted, 0.99));
        row("same_host", "what=ping-pong", place, figures, error);
    }

    private static double rank(double[] sorted, double share) {
        int place = (int) Math.ceil(sorted.length * share);
        return sorted[Math.max(1, Math.min(place, sorted.length)) - 1];
    }

    private static void row(String scenario, String name, String place, Map<String, Double> figures, String invalid) {
        List<String> words = new ArrayList<>();
        figures.forEach((key, value) -> words.add("\"" + key + "\":" + value));
        System.out.println("{\"scenario\":\"" + scenario + "\",\"system\":\"aeron\",\"case\":\"" + name
            + "\",\"repeat\":1,\"placement\":\"" + place + "\",\"waiting\":\"spinning\",\"figures\":{"
            + String.join(",", words) + "},\"invalid\":[" + (invalid.isEmpty() ? "" : "\"" + invalid + "\"") + "]}");
    }
}
